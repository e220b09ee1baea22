/** The live page: joins the parts together. Everything that decides something lives in a module of its own. */

import { Announcer } from "./announce.js";
import { Asking } from "./ask.js";
import { Beamer } from "./beamer.js";
import { unwrap } from "./compose.js";
import { wire } from "./controls.js";
import { Dictation } from "./dictate.js";
import { Knobs } from "./knobs.js";
import { Lens } from "./lens.js";
import { $, OWN } from "./parts.js";
import { Rows } from "./rows.js";
import { languageName, load, samplesFor, sourceLanguage, targetLanguage } from "./samples.js";
import { Speaker } from "./speaker.js";
import { Talk } from "./talk.js";
import { KEEP } from "./transcript.js";
import * as server from "./server.js";

/** @typedef {import("./samples.js").Model} Model */

export class App {
  /** @param {Model[]} models */
  constructor(models) {
    this.models = models;
    this.model = models[0];
    this.rows = new Rows($("rows"), $("folds"), { source: "", target: "" });
    this.lens = new Lens($("why"), $("drawing"), $("lag"));
    this.asking = new Asking(this.rows, this.lens, $("describer"), (opened) => this.sheet(opened), () => this.refresh());
    this.announcer = new Announcer($("spoken"));
    this.knobs = new Knobs($("knobs"), (policy) => this.retune(policy));
    this.speaker = new Speaker((text) => this.talk.say(text), () => this.playing());
    this.dictation = new Dictation((text) => this.talk.say(text), (text) => void ($("interim").textContent = text), (on, trouble) => this.listening(on, trouble));
    this.beamer = new Beamer({
      stage: $("beamer"), text: $("beamer-text"), source: $("beamer-source"), opener: $("captions"), leave: $("beamer-leave"),
      others: /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".top, .stage, .skip")]),
    });
    /** @type {Set<import("./transcript.js").Sentence>} */
    this.stale = new Set();
    this.frame = 0;
    /** @type {import("./transcript.js").Sentence | undefined} */
    this.noticed = undefined; // the sentence that a notice is about
    this.following = true; // the newest words, until the reader scrolls away from them
    this.policy = this.model.policy;
    this.talk = this.dial();
    this.choose(this.model);
    wire(this);
  }

  // a model, a talk

  /** @param {Model} model */
  choose(model) {
    this.model = model;
    this.policy = model.policy;
    const [source, target] = [sourceLanguage(model), targetLanguage(model)];
    this.rows.languages = { source: source === "toy" ? "" : source, target };
    $("source-head").textContent = ["Speaker", languageName(source)].filter(Boolean).join(" · ");
    $("target-head").textContent = ["Translation", languageName(target)].filter(Boolean).join(" · ");
    $("about").textContent = model.about?.description ? `The model ${model.name}: ${model.about.description}.` : "";
    this.knobs.show(model.policy, model.policies);
    this.offer(model);
  }

  /** @param {Model} model */
  offer(model) {
    const samples = samplesFor(model);
    const select = /** @type {HTMLSelectElement} */ ($("sample"));
    select.replaceChildren();
    for (const sample of samples) select.add(new Option(sample.title, sample.file));
    select.add(new Option("A text of your own", OWN));
    $("own").hidden = select.value !== OWN;
    $("welcome-play").hidden = samples.length === 0;
    if (samples.length) $("welcome-play-text").textContent = `Play “${samples[0].title}”`;
  }

  begin() {
    this.speaker.stop();
    this.playing();
    this.talk.close();
    this.asking.hide();
    this.rows.clear();
    this.lens.clear();
    this.announcer.clear();
    this.stale.clear();
    $("welcome").hidden = false;
    this.following = $("jump").hidden = true;
    this.talk = this.dial();
    this.beamer.update(this.talk.transcript);
  }

  dial() {
    return new Talk({ url: server.streamUrl(), model: this.model.name, policy: this.policy, token: server.token() }, this);
  }

  /** @param {string} policy */
  retune(policy) {
    this.policy = policy;
    this.talk.change(policy);
    const { open } = this.talk.transcript;
    this.notice(open && !open.done ? "Holds from the next sentence on." : "");
    this.noticed = open;
  }

  // what the talk tells

  /** @param {string} state @param {string} detail */
  state(state, detail) {
    $("status").dataset.state = state;
    $("status-text").textContent = detail;
    this.refresh();
  }

  /** @param {import("./transcript.js").Sentence} sentence @param {string} text newly committed */
  changed(sentence, text) {
    this.stale.add(sentence);
    if (sentence !== this.noticed) this.notice("");
    this.lens.note(sentence.behind);
    if (text) this.announcer.add(text);
    if (this.stale.size > KEEP) this.paint(); // a hidden page is given no frames, and must not hoard
    else this.refresh();
  }

  said() {
    $("welcome").hidden = true;
    this.refresh();
  }

  /** @param {string} message */
  refusedPolicy(message) {
    this.noticed = this.talk.transcript.open;
    this.notice(message);
  }

  /** @param {string} text */
  notice(text) {
    $("notice").textContent = text;
  }

  // drawing, at most once a frame

  refresh() {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const sentence of this.stale) this.rows.update(sentence);
    this.stale.clear();
    this.rows.fold(this.talk.transcript.fold(), this.talk.transcript.folded);
    this.rows.wait(this.talk.ahead, !this.talk.line.up);
    this.asking.refresh();
    this.follow();
    this.redraw();
    this.lens.measure(this.talk.transcript.sentences);
    this.beamer.update(this.talk.transcript);
  }

  /** Stay with the newest words, unless the reader is elsewhere or asks about a word. */
  follow() {
    const scroll = $("scroll");
    if (this.following && !this.asking.about && $("welcome").hidden) scroll.scrollTop = scroll.scrollHeight;
    $("jump").hidden = this.following;
  }

  redraw() {
    if (!this.asking.about) this.lens.draw(this.talk.transcript.open, -1);
  }

  // controls

  captions() {
    if (this.beamer.open) return void this.beamer.leave();
    this.beamer.enter();
    this.beamer.update(this.talk.transcript);
  }

  /** @param {string} mode */
  mode(mode) {
    for (const pane of document.querySelectorAll(".pane")) /** @type {HTMLElement} */ (pane).hidden = /** @type {HTMLElement} */ (pane).dataset.mode !== mode;
    if (mode !== "dictate" && this.dictation.on) this.dictation.stop();
  }

  async play() {
    if (this.speaker.speaking) {
      this.speaker.stop();
      return this.playing();
    }
    const file = /** @type {HTMLSelectElement} */ ($("sample")).value;
    const text = file === OWN ? unwrap(/** @type {HTMLTextAreaElement} */ ($("own")).value) : await load(file);
    if (!text.trim()) return $("own").focus();
    /** @type {HTMLInputElement} */ (document.querySelector('input[value="play"]')).click();
    this.speaker.start(text);
    this.playing();
  }

  playing() {
    $("play").textContent = this.speaker.speaking ? "Stop" : "Play";
  }

  /** @param {boolean} on @param {string} trouble */
  listening(on, trouble) {
    $("dictate").textContent = on ? "Stop listening" : "Start listening";
    if (trouble) $("dictate-hint").textContent = trouble;
  }

  finish() {
    const box = /** @type {HTMLTextAreaElement} */ ($("composer"));
    this.talk.say(`${box.value}\n`);
    box.value = "";
  }

  /** On narrow screens the lens is a sheet over the text.
   * @param {boolean} open */
  sheet(open) {
    $("lens").classList.toggle("open", open);
    $("sheet").setAttribute("aria-expanded", String(open));
    $("scroll").classList.toggle("covered", open);
    if (!open) return;
    $("lens").scrollTop = 0;
    if (getComputedStyle($("lens")).position === "fixed") this.asking.about?.row.row.scrollIntoView({ block: "start" });
  }

  /** @param {string} id @param {string} text */
  flash(id, text) {
    const before = $(id).dataset.name ?? $(id).textContent ?? "";
    $(id).dataset.name = before;
    $(id).textContent = text;
    setTimeout(() => void ($(id).textContent = before), 1500);
  }
}

server.models(
  (detail) => {
    $("status").dataset.state = "waiting";
    $("status-text").textContent = detail;
  },
  $("token-form"),
).then((models) => new App(models));
