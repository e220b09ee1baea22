/** Plays a text at a chosen rate: word by word, on time even where the browser slows its timers down. */

export class Player {
  /** @param {(text: string) => void} feed @param {() => void} finished */
  constructor(feed, finished) {
    this.feed = feed;
    this.finished = finished;
    /** @type {string[]} */
    this.words = [];
    this.place = 0;
    this.rate = 150; // words per minute
    this.due = 0;
    this.timer = 0;
  }

  get playing() {
    return this.timer !== 0;
  }

  /** @param {string} text */
  start(text) {
    this.stop();
    this.words = split(text);
    this.place = 0;
    this.due = performance.now();
    this.tick();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }

  tick() {
    const now = performance.now();
    let text = "";
    while (this.place < this.words.length && this.due <= now) {
      text += this.words[this.place++];
      this.due += 60000 / this.rate;
    }
    if (text) this.feed(text);
    if (this.place < this.words.length) {
      this.timer = setTimeout(() => this.tick(), Math.max(0, this.due - performance.now()));
    } else {
      this.stop();
      this.finished();
    }
  }
}

/** Words with the white space after them; the last one ends its line.
 * @param {string} text @returns {string[]} */
export function split(text) {
  return `${text.trim()}\n`.match(/\S+\s+/g) ?? [];
}
