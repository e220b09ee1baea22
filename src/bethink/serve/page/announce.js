/** The translation for screen readers: committed text only, in phrases rather than single words, in a live region. */

const PAUSE = 1200; // ms without a new word before an unfinished phrase is read
const PHRASE = 90; // characters
const KEPT = 12; // phrases left in the region

export class Announcer {
  /** @param {HTMLElement} region */
  constructor(region) {
    this.region = region;
    this.phrase = "";
    this.timer = 0;
  }

  /** @param {string} text just committed, with the space before it */
  add(text) {
    this.phrase += text;
    clearTimeout(this.timer);
    const complete = /[.!?…:;]\s*$/.test(this.phrase) || this.phrase.length > PHRASE;
    this.timer = setTimeout(() => this.flush(), complete ? 0 : PAUSE);
  }

  flush() {
    const text = this.phrase;
    this.phrase = "";
    if (!text.trim()) return;
    const line = document.createElement("p");
    line.textContent = text; // its leading space too: a full stop that comes late still belongs to its word
    this.region.append(line);
    while (this.region.childElementCount > KEPT) this.region.firstElementChild?.remove();
  }

  clear() {
    clearTimeout(this.timer);
    this.phrase = "";
    this.region.replaceChildren();
  }
}
