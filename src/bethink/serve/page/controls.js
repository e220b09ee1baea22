/** What happens when someone clicks, moves or types something. */

import { compose } from "./compose.js";
import { obstacle, recogniser } from "./dictate.js";
import { $, OWN } from "./dom.js";
import { copy, download } from "./save.js";
import { bilingual, plain, srt } from "./srt.js";

/** @typedef {import("./app.js").App} App */

/** @param {App} app */
export function wire(app) {
  for (const id of ["composer", "captions-input"]) compose($(id), (text) => app.session.feed(text));
  wireModels(app);
  wireInput(app);
  wireTranscript(app);
  wireCaptions(app);
}

/** @param {App} app */
function wireModels(app) {
  const select = /** @type {HTMLSelectElement} */ ($("model"));
  select.hidden = app.models.length < 2;
  for (const { name } of app.models) select.add(new Option(name, name));
  select.addEventListener("change", () => {
    app.begin(app.models[select.selectedIndex]);
  });
}

/** @param {App} app */
function wireInput(app) {
  $("dock").addEventListener("submit", (event) => event.preventDefault());
  for (const radio of document.querySelectorAll('input[name="mode"]')) radio.addEventListener("change", () => app.mode(/** @type {HTMLInputElement} */ (radio).value));
  $("mode-dictate").hidden = !recogniser();
  if (obstacle()) {
    /** @type {HTMLButtonElement} */ ($("dictate")).disabled = true;
    $("dictate-hint").textContent = obstacle();
  }
  const rate = /** @type {HTMLInputElement} */ ($("rate"));
  rate.addEventListener("input", () => {
    app.player.rate = Number(rate.value);
    $("rate-out").textContent = `${rate.value} words/min`;
  });
  $("sample").addEventListener("change", () => void ($("own").hidden = /** @type {HTMLSelectElement} */ ($("sample")).value !== OWN));
  $("play").addEventListener("click", () => app.play());
  $("welcome-play").addEventListener("click", () => app.play());
  $("dictate").addEventListener("click", () => (app.dictation.on ? app.dictation.stop() : app.dictation.start(app.rows.languages.source)));
  $("finish").addEventListener("click", () => app.finish());
  $("clear").addEventListener("click", () => app.begin());
  $("undo").addEventListener("click", () => app.undo());
  window.addEventListener("beforeunload", (event) => {
    const { transcript, buffer } = app.session;
    if (transcript.count && !buffer.room) event.preventDefault(); // the browser asks whether to leave: the talk is kept nowhere else
  });
  $("foresee").setAttribute("aria-pressed", String(app.foreseeing));
  $("foresee").addEventListener("click", () => app.foresee(!app.foreseeing));
  $("tune").addEventListener("click", () => $("tune").setAttribute("aria-expanded", String($("policy-panel").classList.toggle("open"))));
}

/** @param {App} app */
function wireTranscript(app) {
  const scroll = $("scroll");
  let height = 0;
  scroll.addEventListener("scroll", () => {
    if (scroll.clientHeight !== height) return; // a panel opened; the reader did not scroll
    app.following = !$("welcome").hidden || scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
    $("jump").hidden = app.following;
  });
  new ResizeObserver(() => {
    height = scroll.clientHeight;
    app.follow();
  }).observe(scroll);
  $("jump").addEventListener("click", () => {
    app.following = true;
    app.follow();
  });
  $("sheet").addEventListener("click", () => app.sheet(!$("inspector").classList.contains("open")));
  $("sheet-close").addEventListener("click", () => app.inspector.release());
  $("copy").addEventListener("click", async () => app.flash("copy", (await copy(plain(app.session.transcript.all()))) ? "Copied" : "Not allowed"));
  $("save-text").addEventListener("click", () => download("translation.txt", "text/plain", plain(app.session.transcript.all())));
  $("save-both").addEventListener("click", () => download("both.txt", "text/plain", bilingual(app.session.transcript.all())));
  $("save-srt").addEventListener("click", () => download("translation.srt", "application/x-subrip", srt(app.session.transcript.all())));
}

/** @param {App} app */
function wireCaptions(app) {
  $("captions").addEventListener("click", () => app.toggleCaptions());
  $("captions-leave").addEventListener("click", () => app.captions.leave());
  $("captions-smaller").addEventListener("click", () => app.captions.resize(1 / 1.15));
  $("captions-larger").addEventListener("click", () => app.captions.resize(1.15));
  $("captions-full").addEventListener("click", () => app.captions.fullScreen());
  $("captions-both").addEventListener("click", () => {
    app.captions.both = !app.captions.both;
    $("captions-both").setAttribute("aria-pressed", String(app.captions.both));
    app.captions.update(app.session.transcript);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") app.captions.open ? app.captions.leave() : app.inspector.release();
    if (event.altKey && event.code === "KeyC") app.toggleCaptions();
  });
  if (location.hash === "#captions") app.toggleCaptions();
}
