/** Captions: the last few sentences in large type on black, for a projector or a second screen. */

import { element } from "./dom.js";

/** @typedef {import("./transcript.js").Transcript} Transcript */

const SHOWN = 3; // sentences
const IDLE = 4000; // ms after which the bar is hidden

export class Captions {
  /** @param {{stage: HTMLElement, text: HTMLElement, source: HTMLElement, others: HTMLElement[], opener: HTMLElement, input: HTMLElement}} parts */
  constructor(parts) {
    this.parts = parts;
    this.scale = 1;
    this.both = false;
    this.timer = 0;
    for (const sign of ["pointermove", "pointerdown", "keydown", "focusin"]) parts.stage.addEventListener(sign, () => this.wake());
    /** @type {WakeLockSentinel | undefined} */
    this.lock = undefined;
  }

  get open() {
    return !this.parts.stage.hidden;
  }

  enter() {
    this.parts.stage.hidden = false;
    for (const other of this.parts.others) other.inert = true;
    this.parts.input.focus(); // whoever was typing goes on typing
    this.wake();
    this.stayAwake();
    this.parts.opener.setAttribute("aria-pressed", "true");
  }

  /** Someone is there: show the bar until nobody was for a while. */
  wake() {
    this.parts.stage.classList.remove("idle");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.parts.stage.classList.add("idle"), IDLE);
  }

  /** A screen that nobody touches for an hour must not go dark. */
  async stayAwake() {
    try {
      this.lock = await navigator.wakeLock?.request("screen");
    } catch {
      this.lock = undefined; // the browser may refuse, for example on a low battery
    }
  }

  async leave() {
    this.lock?.release();
    if (document.fullscreenElement) await document.exitFullscreen();
    this.parts.stage.hidden = true;
    for (const other of this.parts.others) other.inert = false;
    this.parts.opener.setAttribute("aria-pressed", "false");
    this.parts.opener.focus();
  }

  /** @param {number} factor */
  resize(factor) {
    this.scale = Math.min(2.5, Math.max(0.5, this.scale * factor));
    this.parts.stage.style.setProperty("--captions-scale", this.scale.toFixed(3));
  }

  async fullScreen() {
    if (document.fullscreenElement) await document.exitFullscreen();
    else await this.parts.stage.requestFullscreen?.();
  }

  /** @param {Transcript} transcript */
  update(transcript) {
    if (!this.open) return;
    const last = transcript.sentences.filter((sentence) => sentence.target.length).slice(-SHOWN);
    const runs = last.flatMap((sentence, n) => [
      element("span", n < last.length - 1 ? "past" : "now", `${sentence.text} `),
      ...(sentence.correction ? [element("span", "correction", `— correction: ${sentence.correction} `)] : []),
    ]);
    this.parts.text.replaceChildren(...(runs.length ? runs : [element("span", "past", "Waiting for the first words …")]));
    this.parts.source.hidden = !this.both;
    this.parts.source.textContent = this.both ? (transcript.open?.sourceText ?? "") : "";
  }
}
