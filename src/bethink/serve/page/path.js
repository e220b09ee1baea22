/** The read/write path as a drawing: to the right it reads, downwards it writes; filled cells show what a word translates. */

import { svg } from "./dom.js";

/** @typedef {import("./transcript.js").Sentence} Sentence */

/** The path in units of words, from the top left corner: right for what is heard, down for each word written.
 * @param {number[]} heard source words heard when each target word was written @param {number} source words heard by now
 * @param {number} width of one source word @param {number} height of one target word @returns {string} */
export function staircase(heard, source, width, height) {
  let path = "M0 0";
  let x = 0;
  heard.forEach((reached, row) => {
    if (reached > x) path += `H${round(reached * width)}`;
    x = Math.max(x, reached);
    path += `V${round((row + 1) * height)}`;
  });
  return source > x ? `${path}H${round(source * width)}` : path;
}

/** A miniature for the gutter between the columns.
 * @param {Sentence} sentence @returns {SVGElement} */
export function glyph(sentence) {
  const drawing = svg("svg", { viewBox: "-2 -2 72 32", preserveAspectRatio: "none", "aria-hidden": "true" });
  const columns = Math.max(sentence.source.length, 1);
  const rows = Math.max(sentence.target.length, sentence.done ? 1 : sentence.source.length, 1);
  drawing.append(svg("path", { d: staircase(sentence.target.map((word) => word.heard), columns, 68 / columns, 28 / rows) }));
  return drawing;
}

const WIDE = 300; // the drawing's own units, about pixels
const NAMED = 12.5; // the narrowest column that has room for a name
const LABELS = 84; // room for target words at the left

/** The whole path of a sentence; `place` is the target word being explained, or -1.
 * @param {Sentence} sentence @param {number} place @returns {SVGElement} */
export function drawing(sentence, place) {
  const columns = Math.max(sentence.source.length, 6);
  const rows = Math.max(sentence.target.length, 4);
  const width = Math.min(22, (WIDE - LABELS - 8) / columns);
  const height = Math.min(18, 270 / rows);
  const named = labelled(sentence, place, width);
  const top = place >= 0 || width >= NAMED ? 58 : 8;
  const frame = svg("svg", { viewBox: `0 0 ${WIDE} ${round(top + rows * height + 8)}`, role: "img", "aria-label": summary(sentence) });
  const plot = svg("g", { transform: `translate(${LABELS} ${top})` });
  plot.append(...gridlines(sentence, width, height), ...cells(sentence, width, height));
  plot.append(svg("path", { class: "path", d: staircase(sentence.target.map((word) => word.heard), sentence.source.length, width, height) }));
  plot.append(...rowLabels(sentence, height, place), ...columnLabels(sentence, width, place, named));
  if (place >= 0) plot.append(marker(sentence, place, width, height));
  frame.append(plot);
  return frame;
}

/** @param {Sentence} sentence @returns {string} */
function summary(sentence) {
  const steps = sentence.target.map((word) => `${word.text.trim()} after ${word.heard}`).join(", ");
  return `Read/write path of sentence ${sentence.number + 1}: ${sentence.source.length} words heard, ${sentence.target.length} written. ${steps}`;
}

/** @param {Sentence} sentence @param {number} width @param {number} height @returns {SVGElement[]} */
function gridlines(sentence, width, height) {
  const wide = Math.max(sentence.source.length, 1) * width;
  return sentence.target.map((_, row) => svg("path", { class: "grid", d: `M0 ${round((row + 0.5) * height)}H${round(wide)}` }));
}

/** @param {Sentence} sentence @param {number} width @param {number} height @returns {SVGElement[]} */
function cells(sentence, width, height) {
  const radius = Math.min(width, height) * 0.46;
  return sentence.target.flatMap((word, row) =>
    word.gain
      .filter(([at, gain]) => at < sentence.source.length && gain >= 0.04)
      .map(([at, gain]) => {
        const r = round(radius * Math.sqrt(Math.min(1, gain / 0.5)));
        return svg("circle", { class: "cell", cx: round((at + 0.5) * width), cy: round((row + 0.5) * height), r, "fill-opacity": round(0.25 + 0.75 * Math.min(1, gain / 0.5)) });
      }),
  );
}

/** @param {Sentence} sentence @param {number} height @param {number} place @returns {SVGElement[]} */
function rowLabels(sentence, height, place) {
  const every = Math.ceil(11 / height); // lines of type must not overlap
  return sentence.target.flatMap((word, row) =>
    (row % every || (place >= 0 && Math.abs(row - place) < every)) && row !== place ? [] : [svg("text", { class: row === place ? "label on" : "label", x: -8, y: round((row + 0.5) * height + 3.5), "text-anchor": "end" }, short(word.text.trim(), 13))],
  );
}

/** The source words that are named above the drawing: all, or in a long sentence those the word asked about came from.
 * @param {Sentence} sentence @param {number} place @param {number} width @returns {number[]} */
function labelled(sentence, place, width) {
  if (width >= NAMED) return sentence.source.map((_, at) => at);
  /** @type {number[]} */
  const kept = [];
  for (const at of strong(sentence, place)) if (kept.every((other) => Math.abs(other - at) * width >= NAMED)) kept.push(at);
  return kept;
}

/** Where the word asked about came from, the clearest first.
 * @param {Sentence} sentence @param {number} place @returns {number[]} */
function strong(sentence, place) {
  const gain = place >= 0 ? sentence.target[place].gain : [];
  return gain.filter(([at, rise]) => rise >= 0.1 && at < sentence.source.length).map(([at]) => at);
}

/** @param {Sentence} sentence @param {number} width @param {number} place @param {number[]} named @returns {SVGElement[]} */
function columnLabels(sentence, width, place, named) {
  const lit = new Set(strong(sentence, place));
  return named.map((at) => {
    const x = round((at + 0.5) * width);
    return svg("text", { class: lit.has(at) ? "label on" : "label", x, y: -6, transform: `rotate(-55 ${x} -6)` }, short(sentence.source[at].text, 10));
  });
}

/** @param {Sentence} sentence @param {number} place @param {number} width @param {number} height @returns {SVGElement} */
function marker(sentence, place, width, height) {
  return svg("circle", { class: "here", cx: round(sentence.target[place].heard * width), cy: round((place + 0.5) * height), r: 5 });
}

/** @param {string} text @param {number} most @returns {string} */
function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** @param {number} value @returns {number} */
function round(value) {
  return Math.round(value * 100) / 100;
}
