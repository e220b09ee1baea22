/** Why was this word written now? The reason that came with it, as a sentence and a few figures. Pure: no DOM. */

/**
 * @typedef {import("./transcript.js").Sentence} Sentence
 * @typedef {import("./transcript.js").TargetWord} TargetWord
 * @typedef {{text: string, strong?: boolean}} Run  a stretch of the reason; strong ones are source words
 * @typedef {{word: string, runs: Run[], rises: {word: string, gain: number}[], attention: {word: string, share: number}[], bar: number | null, facts: [string, string][]}} Explanation
 */

/** Less attention to a source word is not shown. */
export const ATTENTIVE = 0.1;

/** @param {Sentence} sentence @param {number} place @param {Record<string, string>} reasons what their codes mean, from the server
 * @returns {Explanation} */
export function explain(sentence, place, reasons) {
  const word = sentence.target[place];
  const rises = word.gain
    .filter(([at, gain]) => at < sentence.source.length && gain >= 0.02)
    .slice(0, 4)
    .map(([at, gain]) => ({ word: sentence.source[at].text, gain }));
  const attention = (word.attention ?? [])
    .filter(([at, share]) => at < sentence.source.length && share >= ATTENTIVE)
    .slice(0, 4)
    .map(([at, share]) => ({ word: sentence.source[at].text, share }));
  const { code, value, threshold } = word.reason;
  const text = reasons[code] ?? code;
  const evidence = word.evidence.map((at) => sentence.source[at]?.text ?? "the end of the sentence");
  const runs = text.split(/(\{\w+(?::[^}]*)?\})/).flatMap((part) => {
    const [, name, format = ""] = part.match(/^\{(\w+):?(.*)\}$/) ?? [];
    if (name === "evidence") return listed(evidence);
    const number = name === "value" ? value : name === "threshold" ? threshold : undefined;
    return part ? [{ text: number === undefined ? part : formatted(number, format) }] : [];
  });
  if (runs[0] && !runs[0].strong) runs[0].text = runs[0].text.charAt(0).toUpperCase() + runs[0].text.slice(1);
  return {
    word: word.text.trim(),
    runs: [...runs, { text: "." }],
    rises,
    attention,
    bar: code === "evidence" ? (threshold ?? null) : null,
    facts: facts(sentence, word),
  };
}

/** A number in the formats of Python that the texts of reasons use: `.0%`, `.2f` or none.
 * @param {number} value @param {string} format @returns {string} */
function formatted(value, format) {
  const [, digits, kind] = format.match(/^\.(\d)([f%])$/) ?? [];
  if (kind) return kind === "%" ? `${(100 * value).toFixed(Number(digits))}%` : value.toFixed(Number(digits));
  return String(value);
}

/** @param {Sentence} sentence @param {TargetWord} word @returns {[string, string][]} */
function facts(sentence, word) {
  /** @type {[string, string][]} */
  const known = [["heard", sentence.done ? `${word.heard} of ${sentence.source.length} words` : words(word.heard)]];
  if (word.confidence !== null) known.push(["sure", `${Math.round(100 * word.confidence)}%`]);
  if (word.stability !== null) known.push(["stays right", `${Math.round(100 * word.stability)}%`]);
  if (word.deferred) known.push(["put off", `${word.deferred}×`]);
  known.push(["after", seconds(word.lag)]);
  return known;
}

/** The same explanation as one plain text, for a screen reader.
 * @param {Explanation} explanation @returns {string} */
export function spoken({ runs, rises, attention, facts: known }) {
  const why = runs.map((run) => run.text).join("");
  const from = rises.map(({ word, gain }) => `${word} rose by ${gain.toFixed(2)}`).join(", ");
  const looked = attention.map(({ word, share }) => `${word} ${Math.round(100 * share)}%`).join(", ");
  return [why, from && `${from}.`, looked && `Attention: ${looked}.`, `${known.map(([name, value]) => `${name} ${value}`).join(", ")}.`].filter(Boolean).join(" ");
}

/** @param {string[]} names @returns {Run[]} */
function listed(names) {
  return names.flatMap((text, n) => {
    const glue = n === 0 ? "" : n < names.length - 1 ? ", " : " and ";
    return glue ? [{ text: glue }, { text, strong: true }] : [{ text, strong: true }];
  });
}

/** @param {number} count @returns {string} */
function words(count) {
  return count === 1 ? "1 word" : `${count} words`;
}

/** @param {number} value @returns {string} */
export function seconds(value) {
  return value < 9.95 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}
