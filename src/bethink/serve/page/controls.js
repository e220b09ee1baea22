/** What happens when someone presses, turns or types something. */

import { compose } from "./compose.js";
import { recogniser } from "./dictate.js";
import { $, OWN } from "./parts.js";
import { copy, download } from "./save.js";
import { plain, srt } from "./srt.js";

/** @typedef {import("./app.js").App} App */

/** @param {App} app */
export function wire(app) {
  for (const id of ["composer", "beamer-input"]) compose($(id), (text) => app.talk.say(text));
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
    app.choose(app.models[select.selectedIndex]);
    app.begin();
  });
}

/** @param {App} app */
function wireInput(app) {
  $("dock").addEventListener("submit", (event) => event.preventDefault());
  for (const radio of document.querySelectorAll('input[name="mode"]')) radio.addEventListener("change", () => app.mode(/** @type {HTMLInputElement} */ (radio).value));
  $("mode-dictate").hidden = !recogniser();
  const rate = /** @type {HTMLInputElement} */ ($("rate"));
  rate.addEventListener("input", () => {
    app.speaker.rate = Number(rate.value);
    $("rate-out").textContent = `${rate.value} words/min`;
  });
  $("sample").addEventListener("change", () => void ($("own").hidden = /** @type {HTMLSelectElement} */ ($("sample")).value !== OWN));
  $("play").addEventListener("click", () => app.play());
  $("welcome-play").addEventListener("click", () => app.play());
  $("dictate").addEventListener("click", () => (app.dictation.on ? app.dictation.stop() : app.dictation.start(app.rows.languages.source)));
  $("finish").addEventListener("click", () => app.finish());
  $("clear").addEventListener("click", () => app.begin());
  $("tune").addEventListener("click", () => $("tune").setAttribute("aria-expanded", String($("knobs").classList.toggle("open"))));
}

/** @param {App} app */
function wireTranscript(app) {
  const scroll = $("scroll");
  scroll.addEventListener("scroll", () => {
    app.following = !$("welcome").hidden || scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
    $("jump").hidden = app.following;
  });
  $("jump").addEventListener("click", () => {
    app.following = true;
    app.follow();
  });
  $("sheet").addEventListener("click", () => app.sheet(!$("lens").classList.contains("open")));
  $("sheet-close").addEventListener("click", () => app.asking.release());
  $("copy").addEventListener("click", async () => app.flash("copy", (await copy(plain(app.talk.transcript.all()))) ? "Copied" : "Not allowed"));
  $("save-text").addEventListener("click", () => download("translation.txt", "text/plain", plain(app.talk.transcript.all())));
  $("save-srt").addEventListener("click", () => download("translation.srt", "application/x-subrip", srt(app.talk.transcript.all())));
}

/** @param {App} app */
function wireCaptions(app) {
  $("captions").addEventListener("click", () => app.captions());
  $("beamer-leave").addEventListener("click", () => app.beamer.leave());
  $("beamer-smaller").addEventListener("click", () => app.beamer.resize(1 / 1.15));
  $("beamer-larger").addEventListener("click", () => app.beamer.resize(1.15));
  $("beamer-full").addEventListener("click", () => app.beamer.fullScreen());
  $("beamer-both").addEventListener("click", () => {
    app.beamer.both = !app.beamer.both;
    $("beamer-both").setAttribute("aria-pressed", String(app.beamer.both));
    app.beamer.update(app.talk.transcript);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") app.beamer.open ? app.beamer.leave() : app.asking.release();
    if (event.altKey && event.code === "KeyC") app.captions();
  });
  if (location.hash === "#captions") app.captions();
}
