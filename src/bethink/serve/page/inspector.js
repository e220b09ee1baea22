/** The inspector: choose a translated word by pointing, tapping or with the keyboard, and see why it was written, its
 * sentence's path, and how far behind the translation is. */

import { element, svg } from "./dom.js";
import { explain, seconds, spoken } from "./explain.js";
import { drawing } from "./path.js";

/** @typedef {import("./transcript.js").Sentence} Sentence @typedef {import("./rows.js").Rows} Rows @typedef {import("./rows.js").Row} Row */

const HISTORY = 90; // steps in the lag's curve
const RECENT = 8; // words over which the seconds are averaged
const FULL = 1; // the rise that fills a bar: a degree lies between 0 and 1

/** What the inspector shows. */
class Panel {
  /** @param {HTMLElement} why @param {HTMLElement} path @param {HTMLElement} lag */
  constructor(why, path, lag) {
    this.why = why;
    this.path = path;
    this.lag = lag;
    /** @type {Record<string, string>} */
    this.reasons = {}; // what their codes mean
    /** @type {number[]} */
    this.history = [];
    this.figures = this.meter();
    this.rest();
  }

  /** No word is chosen: say how to choose one. */
  rest() {
    this.why.replaceChildren(element("p", "why-empty", "Point at a translated word, tap it, or reach it with the Tab and arrow keys. The source words it translates, or with some models those it paid attention to, light up; those not yet heard then turn pale. A dotted line marks words that were shown early and may be wrong."));
  }

  /** @param {Sentence} sentence @param {number} place @returns {string} the explanation as plain text */
  explain(sentence, place) {
    const explanation = explain(sentence, place, this.reasons);
    const reason = element("p", "why-reason");
    for (const run of explanation.runs) reason.append(run.strong ? element("b", "", run.text) : run.text);
    this.why.replaceChildren(element("p", "why-word", explanation.word), reason);
    if (explanation.rises.length) this.why.append(rises(explanation.rises, explanation.bar));
    if (explanation.attention.length) this.why.append(attention(explanation.attention));
    this.why.append(facts(explanation.facts));
    return spoken(explanation);
  }

  /** @param {Sentence | undefined} sentence @param {number} place of the chosen word, or -1 */
  draw(sentence, place) {
    this.path.replaceChildren(...(sentence ? [drawing(sentence, place)] : []));
  }

  /** One more step was taken.
   * @param {number} behind source words not yet answered */
  note(behind) {
    this.history.push(behind);
    if (this.history.length > HISTORY) this.history.shift();
  }

  /** @param {Sentence[]} sentences the last ones @param {number} [ahead] words that the server has not read yet */
  measure(sentences, ahead = 0) {
    const open = sentences.at(-1);
    const [words, unit, time, curve] = this.figures;
    const behind = (open?.behind ?? 0) + ahead;
    words.textContent = String(behind);
    unit.textContent = behind === 1 ? "word behind" : "words behind";
    const recent = sentences.slice(-RECENT).flatMap((sentence) => sentence.target).slice(-RECENT);
    if (recent.length) time.textContent = seconds(recent.reduce((sum, word) => sum + word.lag, 0) / recent.length);
    curve.setAttribute("d", this.curve());
  }

  /** @returns {string} */
  curve() {
    const top = Math.max(4, ...this.history);
    return this.history.map((value, n) => `${n ? "L" : "M"}${((300 * n) / (HISTORY - 1)).toFixed(1)} ${(30 - (28 * value) / top).toFixed(1)}`).join("");
  }

  clear() {
    this.history = [];
    this.figures[2].textContent = "–";
    this.measure([]);
    this.draw(undefined, -1);
    this.rest();
  }

  /** @returns {Element[]} */
  meter() {
    const [words, time] = [element("p", "figure", "0"), element("p", "figure", "–")];
    const [unit, since] = [element("p", "unit", "words behind"), element("p", "unit", "average delay")];
    const frame = svg("svg", { viewBox: "0 0 300 32", preserveAspectRatio: "none", "aria-hidden": "true" });
    const curve = svg("path", { class: "spark" });
    frame.append(svg("path", { class: "base", d: "M0 30H300" }), curve);
    this.lag.replaceChildren(words, time, unit, since, frame);
    return [words, unit, time, curve];
  }
}

/** Which word is chosen; a click or Enter keeps it chosen. */
export class Inspector {
  /** @param {Rows} rows @param {{why: HTMLElement, path: HTMLElement, lag: HTMLElement}} parts
   * @param {HTMLElement} describer hidden text that describes the focused word
   * @param {(opened: boolean) => void} tapped @param {() => void} left */
  constructor(rows, parts, describer, tapped, left) {
    this.rows = rows;
    this.panel = new Panel(parts.why, parts.path, parts.lag);
    this.describer = describer;
    this.tapped = tapped;
    this.left = left;
    /** @type {{row: Row, place: number} | null} */
    this.about = null;
    /** @type {HTMLElement | null} */
    this.held = null;
    this.listen(rows.rows);
  }

  /** @param {HTMLElement} area */
  listen(area) {
    area.addEventListener("pointerover", (event) => event.pointerType === "mouse" && !this.held && this.show(wordAt(event)));
    area.addEventListener("pointerleave", () => this.held || this.hide());
    area.addEventListener("focusin", (event) => this.show(wordAt(event)));
    area.addEventListener("focusout", () => this.held || this.hide());
    area.addEventListener("click", (event) => this.click(event));
    area.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {HTMLElement | null} word */
  show(word) {
    const found = word && this.rows.find(word);
    if (!word || !found) return;
    this.rows.dim();
    this.about = found;
    this.rows.light(found.row, found.place);
    this.describer.textContent = this.panel.explain(found.row.sentence, found.place);
    word.setAttribute("aria-describedby", this.describer.id);
    this.panel.draw(found.row.sentence, found.place);
  }

  /** The sentence has grown while one of its words is chosen. */
  refresh() {
    if (this.about) this.show(/** @type {HTMLElement} */ (this.about.row.target.children[this.about.place]));
  }

  hide() {
    if (!this.about) return;
    this.about = this.held = null;
    this.rows.dim();
    this.panel.rest();
    this.left();
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const path = target.closest(".glyph");
    const word = path ? /** @type {HTMLElement | null} */ (path.parentElement?.querySelector(".target .word")) : wordAt(event);
    if (!word) return this.held ? this.hide() : undefined;
    if (this.held === word) return this.release();
    this.held = word;
    this.rows.reach(word);
    this.show(word);
    this.tapped(true);
  }

  release() {
    this.hide();
    this.tapped(false);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const word = wordAt(event);
    if (!word) return;
    const next = this.neighbour(word, event.key);
    if (next) {
      this.held = null;
      this.rows.reach(next);
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") word.click();
    else if (event.key === "Escape") this.release();
    else return;
    event.preventDefault();
  }

  /** @param {HTMLElement} word @param {string} key @returns {HTMLElement | undefined} */
  neighbour(word, key) {
    if (key === "ArrowUp" || key === "ArrowDown") return this.across(word, key === "ArrowUp" ? -1 : 1);
    const words = /** @type {HTMLElement[]} */ ([...this.rows.rows.querySelectorAll(".target .word")]);
    const at = words.indexOf(word);
    const places = /** @type {Record<string, number>} */ ({ ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: words.length - 1 });
    return words[places[key] ?? -1];
  }

  /** The word at about the same place in the sentence above or below.
   * @param {HTMLElement} word @param {number} by @returns {HTMLElement | undefined} */
  across(word, by) {
    const rows = [...this.rows.byKey.values()].filter((row) => row.target.childElementCount);
    const found = this.rows.find(word);
    const row = found && rows[rows.indexOf(found.row) + by];
    return row ? /** @type {HTMLElement} */ (row.target.children[Math.min(found.place, row.target.childElementCount - 1)]) : undefined;
  }
}

/** @param {{word: string, gain: number}[]} list @param {number | null} bar what the policy requires @returns {HTMLElement} */
function rises(list, bar) {
  const made = element("ul", "rises");
  made.setAttribute("aria-label", "How much more translated each source word became");
  made.append(...list.map(({ word, gain }) => item(word, gain / FULL, `+${gain.toFixed(2)}`, bar)));
  return made;
}

/** Where the model looked; it has no degrees.
 * @param {{word: string, share: number}[]} list @returns {HTMLElement} */
function attention(list) {
  const made = element("ul", "rises attention");
  made.setAttribute("aria-label", "Attention to each source word");
  made.append(element("li", "heading", "attention"), ...list.map(({ word, share }) => item(word, share, `${Math.round(100 * share)}%`, null)));
  return made;
}

/** A source word with a bar, whose length is `part` of the whole.
 * @param {string} word @param {number} part @param {string} size @param {number | null} bar @returns {HTMLElement} */
function item(word, part, size, bar) {
  const made = element("li");
  const frame = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", class: "bar" });
  frame.append(svg("rect", { x: 0, y: 1, width: Math.min(100, 100 * part), height: 8 }));
  if (bar) frame.append(svg("line", { x1: (100 * bar) / FULL, x2: (100 * bar) / FULL, y1: -3, y2: 13 }));
  made.append(element("span", "name", word), frame, element("span", "size", size));
  return made;
}

/** @param {[string, string][]} known @returns {HTMLElement} */
function facts(known) {
  const list = element("dl", "facts");
  for (const [name, value] of known) {
    const pair = element("div");
    pair.append(element("dt", "", name), element("dd", "", value));
    list.append(pair);
  }
  return list;
}

/** @param {Event} event @returns {HTMLElement | null} */
function wordAt(event) {
  return /** @type {HTMLElement} */ (event.target).closest(".target .word");
}
