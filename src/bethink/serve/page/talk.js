/** One talk: the line, what was said when, and the transcript that grows from it. Knows no DOM but the clock. */

import { Ledger } from "./ledger.js";
import { Line } from "./line.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";

/**
 * @typedef {import("./line.js").State} State
 * @typedef {import("./transcript.js").Sentence} Sentence
 * @typedef {{state(state: State, detail: string): void, changed(sentence: Sentence, text: string): void, said(): void,
 *   refusedPolicy(message: string): void}} TalkListener
 */

export class Talk {
  /** @param {{url: string, model: string, policy: string, token: string}} options @param {TalkListener} listener */
  constructor({ url, model, policy, token }, listener) {
    this.listener = listener;
    this.transcript = new Transcript();
    this.timeline = new Timeline(policy);
    this.ledger = new Ledger(model, policy);
    this.beginning = 0; // when the first word was said, by the browser's clock
    this.read = 0; // how far the server has read our text
    this.note = "";
    this.line = new Line(url, this.ledger, this, token);
  }

  /** Seconds since the first word. */
  get now() {
    return this.beginning ? (performance.now() - this.beginning) / 1000 : 0;
  }

  /** @param {string} text */
  say(text) {
    if (!text) return;
    this.beginning ||= performance.now();
    this.line.say(text);
    this.timeline.say(this.ledger.position, this.now);
    this.listener.said();
  }

  /** @param {string} policy */
  change(policy) {
    this.line.change(policy);
    this.timeline.change(this.ledger.position, policy);
  }

  /** Said, but not read by the server yet.
   * @returns {string} */
  get ahead() {
    const texts = this.ledger.kept.filter((entry) => entry.kind === "text");
    return texts.map((entry) => entry.body.slice(Math.max(0, this.read - entry.at))).join("");
  }

  close() {
    this.line.close();
  }

  // what the line tells

  /** @param {State} state @param {string} detail */
  state(state, detail) {
    this.listener.state(state, detail);
  }

  /** @param {any} step @param {number} generation */
  step(step, generation) {
    if (step.offset !== undefined) this.read = step.offset;
    const policy = this.timeline.policyAt(this.read);
    const saidAt = step.action === "READ" ? this.timeline.saidAt(this.read, this.now) : 0;
    const sentence = this.transcript.step(step, generation, policy, this.now, saidAt);
    if (this.note) [sentence.note, this.note] = [this.note, ""];
    this.listener.changed(sentence, step.action === "WRITE" ? step.text : "");
  }

  /** @param {any} message @param {number} generation */
  sentence(message, generation) {
    const sentence = this.transcript.finish(message.sentence, generation, message.latency);
    if (sentence) this.listener.changed(sentence, "");
  }

  /** @param {string} code @param {string} message */
  complaint(code, message) {
    if (code === "policy") this.listener.refusedPolicy(message);
  }

  /** The server could not continue word for word. What stands here stays; the open sentence is translated once more below. */
  anew() {
    this.timeline.shift(this.ledger.dropped);
    this.read = 0;
    this.note = "The server has changed; from here the open sentence is translated anew.";
  }
}
