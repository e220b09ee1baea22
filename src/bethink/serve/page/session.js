/** One session: the connection, when text was fed, and the transcript that grows from it. Knows no DOM but the clock. */

import { Connection } from "./connection.js";
import { ResumeBuffer } from "./resume.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";

/**
 * @typedef {import("./connection.js").State} State
 * @typedef {import("./transcript.js").Sentence} Sentence
 * @typedef {{state(state: State, detail: string): void, changed(sentence: Sentence, text: string): void, fed(): void,
 *   refusedPolicy(message: string): void}} SessionListener
 */

const SILENT = { state() {}, step() {}, sentence() {}, complaint() {}, anew() {} };

export class Session {
  /** @param {{url: string, model: string, policy: string, token: string, tail?: boolean, glossary?: Record<string, string>, room?: string, others?: string[]}} options
   * @param {SessionListener} listener `room`: the key of a room; `others`: models that translate for its listeners alone */
  constructor({ url, model, policy, token, tail = false, glossary = {}, room = "", others = [] }, listener) {
    this.listener = listener;
    this.transcript = new Transcript();
    this.timeline = new Timeline();
    this.buffer = new ResumeBuffer(model, policy, room);
    this.buffer.tail = tail;
    this.buffer.glossary = glossary;
    this.beginning = 0; // when the first text was fed, by the browser's clock
    this.read = 0; // how far the server has read our text
    this.note = "";
    this.connection = new Connection(url, this.buffer, this, token);
    this.others = others.map((name) => new Connection(url, new ResumeBuffer(name, "", room), SILENT, token));
  }

  /** Seconds since the first text. */
  get now() {
    return this.beginning ? (performance.now() - this.beginning) / 1000 : 0;
  }

  /** @param {string} text */
  feed(text) {
    if (!text) return;
    this.beginning ||= performance.now();
    this.connection.feed(text);
    for (const other of this.others) other.feed(text);
    this.timeline.feed(this.buffer.position, this.now);
    this.listener.fed();
  }

  /** @param {string} policy */
  change(policy) {
    this.connection.change(policy);
  }

  /** Whether to show what may come next.
   * @param {boolean} on */
  foresee(on) {
    this.buffer.tail = on;
    const { open } = this.transcript;
    if (open) open.tail = "";
    if (open) this.listener.changed(open, "");
    this.connection.again();
  }

  /** Fed, but not read by the server yet.
   * @returns {string} */
  get ahead() {
    const texts = this.buffer.kept.filter((entry) => entry.kind === "text");
    return texts.map((entry) => entry.body.slice(Math.max(0, this.read - entry.at))).join("");
  }

  close() {
    for (const one of [this.connection, ...this.others]) one.close();
  }

  // what the connection reports

  /** @param {State} state @param {string} detail */
  state(state, detail) {
    this.listener.state(state, detail);
  }

  /** @param {any} step @param {number} generation */
  step(step, generation) {
    if (step.offset !== undefined) this.read = step.offset;
    const fedAt = step.action === "READ" ? this.timeline.fedAt(this.read, this.now) : 0;
    const sentence = this.transcript.step(step, generation, this.now, fedAt);
    if (this.note) [sentence.note, this.note] = [this.note, ""];
    this.listener.changed(sentence, step.action === "WRITE" ? step.text : "");
  }

  /** @param {any} message @param {number} generation */
  sentence(message, generation) {
    const sentence = this.transcript.finish(message.sentence, generation);
    if (sentence) this.listener.changed(sentence, "");
  }

  /** @param {{sentence: number, text: string}} message @param {number} generation */
  tail(message, generation) {
    const sentence = this.transcript.foresee(message, generation);
    if (sentence) this.listener.changed(sentence, "");
  }

  /** @param {string} code @param {string} message */
  complaint(code, message) {
    if (code === "policy") this.listener.refusedPolicy(message);
  }

  /** The server could not continue word for word. What stands here stays; the open sentence is translated once more below. */
  anew() {
    this.timeline.shift(this.buffer.dropped);
    this.read = 0;
    this.note = "The server has changed. From here on, the open sentence is translated again.";
  }
}
