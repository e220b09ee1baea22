/** The transcript on the page: one row per sentence, words only ever appended, old rows folded away. */

import { element } from "./dom.js";
import { ATTENTIVE } from "./explain.js";
import { glyph } from "./path.js";

/**
 * @typedef {import("./transcript.js").Sentence} Sentence
 * @typedef {import("./transcript.js").Folded} Folded
 * @typedef {{row: HTMLElement, source: HTMLElement, target: HTMLElement, glyph: HTMLButtonElement, sentence: Sentence}} Row
 */

const FOLD = 25; // sentences under one heading
const MANY = 20; // words; fewer need no counting

export class Rows {
  /** @param {HTMLElement} rows @param {HTMLElement} folds @param {{source: string, target: string}} languages codes, for `lang` */
  constructor(rows, folds, languages) {
    this.rows = rows;
    this.folds = folds;
    this.languages = languages;
    /** @type {Map<string, Row>} */
    this.byKey = new Map();
    /** @type {HTMLElement | null} */
    this.stop = null; // the one word that the Tab key reaches
    this.ahead = this.aheadRow();
    this.folded = 0;
  }

  clear() {
    this.rows.replaceChildren();
    this.folds.replaceChildren();
    this.byKey.clear();
    this.stop = null;
    this.folded = 0;
  }

  /** Bring a sentence's row up to date.
   * @param {Sentence} sentence */
  update(sentence) {
    const row = this.byKey.get(sentence.key) ?? this.add(sentence);
    for (const word of sentence.source.slice(row.source.childElementCount)) this.hear(row, word.text);
    for (const word of sentence.target.slice(row.target.childElementCount)) this.write(row, word);
    if (sentence.correction && !row.row.querySelector(".correction")) row.row.append(element("p", "correction", `Correction: ${sentence.correction}`));
    this.foresee(row, sentence.tail);
    row.row.classList.toggle("live", !sentence.done);
    row.glyph.replaceChildren(glyph(sentence));
    row.glyph.setAttribute("aria-label", `Path of sentence ${sentence.number + 1}`);
  }

  /** Text that was fed and is not read yet, its beginning first: while the connection is down, or after a long paste.
   * @param {string} text @param {number} words in it @param {boolean} lost */
  wait(text, words, lost) {
    const shown = text.trim();
    const left = words > MANY ? `${words.toLocaleString("en")} words still to translate.` : "";
    /** @type {HTMLElement} */ (this.ahead.lastElementChild).textContent = lost ? "Kept until the server is back." : left;
    /** @type {HTMLElement} */ (this.ahead.firstElementChild).textContent = shown.length > 400 ? `${shown.slice(0, 400).replace(/\s+\S*$/, "")} …` : shown;
    if (shown) this.rows.append(this.ahead);
    else this.ahead.remove();
  }

  /** @param {Sentence} sentence @returns {Row} */
  add(sentence) {
    const row = {
      row: element("article", "row"),
      source: element("p", "source"),
      target: element("p", "target"),
      glyph: /** @type {HTMLButtonElement} */ (element("button", "glyph")),
      sentence,
    };
    row.row.dataset.key = sentence.key;
    row.row.setAttribute("aria-label", `Sentence ${sentence.number + 1}`);
    row.glyph.type = "button";
    row.glyph.tabIndex = -1; // the arrow keys reach the same sentence
    this.setLanguage(row.source, this.languages.source);
    this.setLanguage(row.target, this.languages.target);
    if (sentence.note) row.row.append(element("p", "row-note", sentence.note));
    row.row.append(row.source, row.glyph, row.target);
    if (this.ahead.isConnected) this.rows.insertBefore(row.row, this.ahead);
    else this.rows.append(row.row);
    this.byKey.set(sentence.key, row);
    return row;
  }

  /** @param {Row} row @param {string} text */
  hear(row, text) {
    if (row.source.childNodes.length) row.source.append(" ");
    row.source.append(element("span", "word", text));
  }

  /** @param {Row} row @param {import("./transcript.js").TargetWord} written its text has the space before it */
  write(row, { text, doubtful }) {
    const space = row.target.childNodes.length ? (text.match(/^\s+/)?.[0] ?? "") : "";
    const word = element("span", doubtful ? "word fresh doubtful" : "word fresh", text.trim());
    word.setAttribute("role", "button");
    word.tabIndex = -1;
    row.target.append(space, word);
    if (!this.stop?.isConnected || this.stop !== document.activeElement) this.reach(word);
  }

  /** What may come next is drawn by the style sheet: it is no text of the page, so nothing can select, copy or read it out.
   * @param {Row} row @param {string} tail */
  foresee(row, tail) {
    if (tail) row.target.dataset.tail = row.target.childNodes.length ? tail : tail.trimStart();
    else delete row.target.dataset.tail;
  }

  /** Make this the word that Tab reaches.
   * @param {HTMLElement} word */
  reach(word) {
    if (this.stop) this.stop.tabIndex = -1;
    word.tabIndex = 0;
    this.stop = word;
  }

  /** @param {HTMLElement} paragraph @param {string} language */
  setLanguage(paragraph, language) {
    if (language) paragraph.lang = language;
    paragraph.dir = "auto";
  }

  /** @returns {HTMLElement} */
  aheadRow() {
    const row = element("div", "row ahead-row");
    row.append(element("p", "source ahead"), element("p", "ahead-note"));
    return row;
  }

  /** Take away the rows of these sentences and offer their text under a heading.
   * @param {Sentence[]} old @param {Folded[]} folded all that is kept as text */
  fold(old, folded) {
    for (const { key } of old) {
      this.byKey.get(key)?.row.remove();
      this.byKey.delete(key);
    }
    this.folded += old.length;
    const wanted = Math.ceil(folded.length / FOLD);
    while (this.folds.childElementCount < wanted) this.folds.append(this.heading(this.folds.childElementCount, folded));
    if (old.length) this.name(folded);
  }

  /** @param {number} place @param {Folded[]} folded @returns {HTMLElement} */
  heading(place, folded) {
    const details = /** @type {HTMLDetailsElement} */ (element("details"));
    details.append(element("summary"));
    details.addEventListener("toggle", () => {
      details.querySelector("dl")?.remove();
      if (details.open) details.append(this.list(folded.slice(place * FOLD, (place + 1) * FOLD)));
    });
    return details;
  }

  /** @param {Folded[]} folded */
  name(folded) {
    const from = this.folded - folded.length; // sentences too old to be kept at all
    [...this.folds.querySelectorAll("summary")].forEach((summary, place) => {
      const last = Math.min((place + 1) * FOLD, folded.length);
      summary.textContent = `Sentences ${from + place * FOLD + 1} to ${from + last}`;
    });
  }

  /** @param {Folded[]} sentences @returns {HTMLElement} */
  list(sentences) {
    const list = element("dl");
    for (const { source, words } of sentences) {
      const [said, translated] = [element("dt", "", source), element("dd", "", words.map((word) => word.text).join("").trim())];
      this.setLanguage(said, this.languages.source);
      this.setLanguage(translated, this.languages.target);
      list.append(said, translated);
    }
    return list;
  }

  /** The sentence and place of a word on the page.
   * @param {HTMLElement} word @returns {{row: Row, place: number} | null} */
  find(word) {
    const key = /** @type {HTMLElement | null} */ (word.closest(".row"))?.dataset.key ?? "";
    const row = this.byKey.get(key);
    return row ? { row, place: [...row.target.children].indexOf(word) } : null;
  }

  /** Mark the source words that the word translates, or those that got attention, and those that had not been read yet.
   * @param {Row} row @param {number} place */
  light(row, place) {
    const word = row.sentence.target[place];
    const gains = new Map(word.gain);
    const attention = new Map(word.attention);
    row.row.classList.add("explained");
    [...row.source.children].forEach((child, at) => {
      const span = /** @type {HTMLElement} */ (child);
      const gain = gains.get(at) ?? 0;
      span.classList.toggle("unread", at >= word.heard);
      span.classList.toggle("reached", at === word.heard - 1);
      if (gain >= 0.04) {
        span.dataset.gain = gain.toFixed(2);
        span.style.setProperty("--gain", Math.min(1, 0.15 + gain / 0.7).toFixed(3));
      }
      const share = attention.get(at) ?? 0;
      if (share >= ATTENTIVE) {
        span.dataset.attention = share.toFixed(2);
        span.style.setProperty("--gain", share.toFixed(3));
      }
    });
    row.target.children[place].setAttribute("aria-current", "true");
  }

  dim() {
    for (const row of this.rows.querySelectorAll(".row.explained")) {
      row.classList.remove("explained");
      for (const word of row.querySelectorAll(".source .word")) {
        word.classList.remove("unread", "reached");
        word.removeAttribute("data-gain");
        word.removeAttribute("data-attention");
      }
      row.querySelector('[aria-current="true"]')?.removeAttribute("aria-current");
    }
  }
}
