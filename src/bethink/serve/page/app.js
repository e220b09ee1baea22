/** The live page: joins its modules together. */

import { Announcer } from "./announce.js";
import { Captions } from "./captions.js";
import { unwrap } from "./compose.js";
import { wire } from "./controls.js";
import { Dictation } from "./dictate.js";
import { $, OWN } from "./dom.js";
import { Glossary } from "./glossary.js";
import { Inspector } from "./inspector.js";
import { Player } from "./player.js";
import { PolicyPanel } from "./policy.js";
import { Room } from "./room.js";
import { Rows } from "./rows.js";
import { languageName, load, samplesFor, sourceLanguage, targetLanguage } from "./samples.js";
import { Session } from "./session.js";
import { KEEP, noted } from "./transcript.js";
import * as server from "./server.js";

/** @typedef {import("./samples.js").Model} Model */

const FORESEE = "bethink-next"; // whether this browser shows what may come next
const UNDO = 60000; // ms for which a dropped talk can be brought back

export class App {
  /** @param {Model[]} models */
  constructor(models) {
    this.models = models;
    this.model = models[0];
    this.rows = new Rows($("rows"), $("folds"), { source: "", target: "" });
    const parts = { why: $("why"), path: $("drawing"), lag: $("lag") };
    this.inspector = new Inspector(this.rows, parts, $("describer"), (opened) => this.sheet(opened), () => this.refresh());
    this.panel = this.inspector.panel;
    this.announcer = new Announcer($("spoken"));
    this.policyPanel = new PolicyPanel($("policy-fields"), (policy) => this.changePolicy(policy));
    this.player = new Player((text) => this.session.feed(text), () => this.playing());
    this.dictation = new Dictation((text) => this.session.feed(text), (text) => void ($("interim").textContent = text), (on, trouble) => this.listening(on, trouble));
    this.captions = new Captions({
      stage: $("captions-view"), text: $("captions-text"), source: $("captions-source"), opener: $("captions"), input: $("captions-input"),
      others: /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".top, .stage, .skip")]),
    });
    /** @type {Set<import("./transcript.js").Sentence>} */
    this.stale = new Set();
    this.frame = 0;
    /** @type {import("./transcript.js").Sentence | undefined} */
    this.noticed = undefined; // the sentence that a notice is about
    this.following = true; // the newest words, until the reader scrolls away from them
    this.policy = this.model.policy;
    this.room = new Room(this);
    this.glossary = new Glossary(this);
    /** @type {{session: Session, model: Model, timer: number} | undefined} */
    this.dropped = undefined; // the talk before, which can be brought back
    this.session = this.connect();
    this.choose(this.model);
    wire(this);
  }

  // a model, a session

  /** @param {Model} model */
  choose(model) {
    this.model = model;
    this.policy = model.policy;
    const [source, target] = [sourceLanguage(model), targetLanguage(model)];
    this.rows.languages = { source: source === "toy" ? "" : source, target };
    $("source-head").textContent = ["Speaker", languageName(source)].filter(Boolean).join(" · ");
    $("target-head").textContent = ["Translation", languageName(target)].filter(Boolean).join(" · ");
    $("about").textContent = model.about?.description ? `The model ${model.name}: ${model.about.description}.` : "";
    this.policyPanel.show(model.policies, model.recommended);
    this.panel.reasons = model.reasons;
    this.glossary.show();
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

  /** Begin a new talk; the one before can be brought back for a while.
   * @param {Model} [model] */
  begin(model) {
    this.player.stop();
    this.playing();
    this.drop();
    if (model) this.choose(model);
    this.empty();
    $("welcome").hidden = false;
    this.following = $("jump").hidden = true;
    this.session = this.connect();
    this.captions.update(this.session.transcript);
  }

  /** Keep the talk for a while, and offer to bring it back. */
  drop() {
    this.forget();
    const { session, model } = this;
    session.listener = { state() {}, changed() {}, fed() {}, refusedPolicy() {} };
    if (!session.transcript.count || session.buffer.room) return session.close(); // a room has one speaker at a time
    this.dropped = { session, model, timer: setTimeout(() => this.forget(), UNDO) };
    $("undo").hidden = false;
  }

  forget() {
    clearTimeout(this.dropped?.timer);
    this.dropped?.session.close();
    this.dropped = undefined;
    $("undo").hidden = true;
  }

  /** Bring the last talk back. */
  undo() {
    if (!this.dropped) return;
    const { session, model, timer } = this.dropped;
    clearTimeout(timer);
    this.dropped = undefined;
    this.session.close();
    this.player.stop();
    this.playing();
    this.empty();
    this.choose(model);
    /** @type {HTMLSelectElement} */ ($("model")).value = model.name;
    this.session = session;
    session.listener = this;
    session.connection.tell();
    const { folded, sentences } = session.transcript;
    this.rows.fold(folded, folded);
    for (const sentence of sentences) this.stale.add(sentence);
    $("welcome").hidden = $("undo").hidden = true;
    this.following = true;
    $("clear").focus();
    this.refresh();
  }

  /** Clear everything that shows a talk. */
  empty() {
    this.inspector.hide();
    this.rows.clear();
    this.panel.clear();
    this.announcer.clear();
    this.stale.clear();
  }

  connect() {
    const room = this.room.stream();
    const url = server.streamUrl(room.room?.split(".")[0]);
    return new Session({ url, model: this.model.name, policy: this.policy, token: server.token(), tail: this.foreseeing, glossary: this.glossary.terms, ...room }, this);
  }

  /** @param {string} policy */
  changePolicy(policy) {
    this.policy = policy;
    this.session.change(policy);
    const { open } = this.session.transcript;
    this.notice(open && !open.done ? "Applies from the next sentence on." : "");
    this.noticed = open;
  }

  /** @param {boolean} on */
  foresee(on) {
    localStorage.setItem(FORESEE, on ? "1" : "");
    $("foresee").setAttribute("aria-pressed", String(on));
    this.session.foresee(on);
  }

  get foreseeing() {
    return localStorage.getItem(FORESEE) === "1";
  }

  // what the session reports

  /** @param {string} state @param {string} detail */
  state(state, detail) {
    if (state === "refused" && this.session.connection.reason === "room") {
      this.room.gone();
      detail = "the room has ended; New begins a text without it";
    }
    $("status").dataset.state = state;
    $("status-text").textContent = detail;
    this.refresh();
  }

  /** @param {import("./transcript.js").Sentence} sentence @param {string} text newly committed */
  changed(sentence, text) {
    this.stale.add(sentence);
    if (sentence !== this.noticed) this.notice("");
    this.panel.note(sentence.behind);
    if (text) this.announcer.add(text);
    if (this.stale.size > KEEP) this.paint(); // a hidden page is given no frames, and must not hoard
    else this.refresh();
  }

  fed() {
    $("welcome").hidden = true;
    this.refresh();
  }

  /** @param {string} message */
  refusedPolicy(message) {
    this.noticed = this.session.transcript.open;
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
    this.rows.fold(this.session.transcript.fold(), this.session.transcript.folded);
    const { ahead } = this.session;
    const words = ahead.match(/\S+/g)?.length ?? 0;
    this.rows.wait(ahead, words, !this.session.connection.up);
    this.inspector.refresh();
    const list = noted(this.session.transcript.sentences);
    $("noted").hidden = list.length === 0;
    $("noted-list").textContent = list.join(" · ");
    this.follow();
    this.redraw();
    this.panel.measure(this.session.transcript.sentences, words);
    this.captions.update(this.session.transcript);
  }

  /** Stay with the newest words, unless the reader scrolled away or inspects a word. */
  follow() {
    const scroll = $("scroll");
    if (this.following && !this.inspector.about && $("welcome").hidden) scroll.scrollTop = scroll.scrollHeight;
    $("jump").hidden = this.following;
  }

  redraw() {
    if (!this.inspector.about) this.panel.draw(this.session.transcript.open, -1);
  }

  // controls

  toggleCaptions() {
    if (this.captions.open) return void this.captions.leave();
    this.captions.enter();
    this.captions.update(this.session.transcript);
  }

  /** @param {string} mode */
  mode(mode) {
    for (const pane of document.querySelectorAll(".pane")) /** @type {HTMLElement} */ (pane).hidden = /** @type {HTMLElement} */ (pane).dataset.mode !== mode;
    if (mode !== "dictate" && this.dictation.on) this.dictation.stop();
    if (mode !== "play" && this.player.playing) {
      this.player.stop();
      this.playing();
      this.session.feed("\n"); // what is typed now is a sentence of its own
    }
  }

  async play() {
    if (this.player.playing) {
      this.player.stop();
      return this.playing();
    }
    const file = /** @type {HTMLSelectElement} */ ($("sample")).value;
    const text = file === OWN ? unwrap(/** @type {HTMLTextAreaElement} */ ($("own")).value) : await load(file);
    if (!text.trim()) return $("own").focus();
    /** @type {HTMLInputElement} */ (document.querySelector('input[value="play"]')).click();
    this.player.start(text);
    this.playing();
  }

  playing() {
    $("play").textContent = this.player.playing ? "Stop" : "Play";
  }

  /** @param {boolean} on @param {string} trouble */
  listening(on, trouble) {
    $("dictate").textContent = on ? "Stop listening" : "Start listening";
    if (trouble) $("dictate-hint").textContent = trouble;
  }

  finish() {
    const box = /** @type {HTMLTextAreaElement} */ ($("composer"));
    this.session.feed(`${box.value}\n`);
    box.value = "";
  }

  /** On narrow screens the inspector is a sheet over the text.
   * @param {boolean} open */
  sheet(open) {
    $("inspector").classList.toggle("open", open);
    $("sheet").setAttribute("aria-expanded", String(open));
    $("scroll").classList.toggle("covered", open);
    if (!open) return;
    $("inspector").scrollTop = 0;
    if (getComputedStyle($("inspector")).position === "fixed") this.inspector.about?.row.row.scrollIntoView({ block: "start" });
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
