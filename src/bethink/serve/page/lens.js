/** The lens beside the text: why the word in question was spoken, the sentence's path, and the lag of the moment. */

import { explain, seconds, spoken } from "./explain.js";
import { drawing, svg } from "./path.js";
import { element } from "./rows.js";

/** @typedef {import("./transcript.js").Sentence} Sentence */

const HISTORY = 90; // steps in the lag's curve
const RECENT = 8; // words over which the seconds are averaged
const FULL = 1; // the rise that fills a bar: a degree lies between 0 and 1

export class Lens {
  /** @param {HTMLElement} why @param {HTMLElement} course @param {HTMLElement} lag */
  constructor(why, course, lag) {
    this.why = why;
    this.course = course;
    this.lag = lag;
    /** @type {number[]} */
    this.history = [];
    this.figures = this.meter();
    this.rest();
  }

  /** Nothing is asked: say what can be. */
  rest() {
    this.why.replaceChildren(element("p", "why-empty", "Point at a translated word, tap it, or reach it with the Tab and arrow keys. The words it came from light up; those it had not yet heard recede."));
  }

  /** @param {Sentence} sentence @param {number} place @returns {string} the explanation as plain text */
  ask(sentence, place) {
    const explanation = explain(sentence, place);
    const reason = element("p", "why-reason");
    for (const run of explanation.runs) reason.append(run.strong ? element("b", "", run.text) : run.text);
    this.why.replaceChildren(element("p", "why-word", explanation.word), reason);
    if (explanation.rises.length) this.why.append(rises(explanation.rises, explanation.bar));
    this.why.append(facts(explanation.facts));
    return spoken(explanation);
  }

  /** @param {Sentence | undefined} sentence @param {number} place of the word asked about, or -1 */
  draw(sentence, place) {
    this.course.replaceChildren(...(sentence ? [drawing(sentence, place)] : []));
  }

  /** One more step was taken.
   * @param {number} behind source words not yet answered */
  note(behind) {
    this.history.push(behind);
    if (this.history.length > HISTORY) this.history.shift();
  }

  /** @param {Sentence[]} sentences the last ones */
  measure(sentences) {
    const open = sentences.at(-1);
    const [words, unit, time, curve] = this.figures;
    const behind = open?.behind ?? 0;
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
    const [unit, since] = [element("p", "unit", "words behind"), element("p", "unit", "from said to shown")];
    const frame = svg("svg", { viewBox: "0 0 300 32", preserveAspectRatio: "none", "aria-hidden": "true" });
    const curve = svg("path", { class: "spark" });
    frame.append(svg("path", { class: "base", d: "M0 30H300" }), curve);
    this.lag.replaceChildren(words, time, unit, since, frame);
    return [words, unit, time, curve];
  }
}

/** @param {{word: string, gain: number, enough: boolean}[]} list @param {number | null} bar what the policy asks for @returns {HTMLElement} */
function rises(list, bar) {
  const made = element("ul", "rises");
  made.setAttribute("aria-label", "How much more translated each source word became");
  for (const { word, gain } of list) {
    const item = element("li");
    const frame = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", class: "bar" });
    frame.append(svg("rect", { x: 0, y: 1, width: Math.min(100, (100 * gain) / FULL), height: 8 }));
    if (bar) frame.append(svg("line", { x1: (100 * bar) / FULL, x2: (100 * bar) / FULL, y1: -3, y2: 13 }));
    item.append(element("span", "name", word), frame, element("span", "size", `+${gain.toFixed(2)}`));
    made.append(item);
  }
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
