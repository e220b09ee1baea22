/** Why did it speak now? One sentence for people from what a word carries. Pure: no DOM. */

import { parse } from "./policies.js";

/**
 * @typedef {import("./transcript.js").Sentence} Sentence
 * @typedef {import("./transcript.js").TargetWord} TargetWord
 * @typedef {{text: string, strong?: boolean}} Run  a stretch of the reason; strong ones are source words
 * @typedef {{word: string, runs: Run[], rises: {word: string, gain: number, enough: boolean}[], bar: number | null,
 *   facts: [string, string][], read: number}} Explanation
 */

/** @param {Sentence} sentence @param {number} place @returns {Explanation} */
export function explain(sentence, place) {
  const word = sentence.target[place];
  const { name, values } = parse(sentence.policy);
  const rises = word.gain
    .filter(([at, gain]) => at < sentence.source.length && gain >= 0.02)
    .slice(0, 4)
    .map(([at, gain]) => ({ word: sentence.source[at].text, gain, enough: word.evidence.includes(at) }));
  return {
    word: word.text.trim(),
    runs: reason(sentence, word, name, values),
    rises,
    bar: word.weighed && name === "pe" ? (values.rho ?? null) : null,
    facts: facts(sentence, word),
    read: word.heard,
  };
}

/** @param {Sentence} sentence @param {TargetWord} word @param {string} name @param {Record<string, number>} values @returns {Run[]} */
function reason(sentence, word, name, values) {
  const evidence = word.evidence.filter((at) => at < sentence.source.length).map((at) => sentence.source[at].text);
  const now = word.evidence.includes(word.heard - 1);
  if (evidence.length) return [{ text: now && evidence.length === 1 ? "It had just heard " : "It had heard " }, ...listed(evidence, now), { text: ", which this word visibly translates." }];
  if (word.ended) return [{ text: "The sentence was over: there was nothing left to wait for." }];
  if (name === "wait-k") return [{ text: `Wait-k stays ${pieces(values.k ?? 3)} behind, whatever they are.` }];
  if (name === "adaptive") return [{ text: "The model was sure enough of it for the lag it had." }];
  if (name === "weigh") return [{ text: weighing(word, values.rho ?? 0.9) }];
  if (name === "pe-flip") return [{ text: `It translated nothing clearly, but was ${pieces(values.k ?? 3)} behind, the most the flip rule allows.` }];
  if (name === "pe" && values.rho === 0) return [{ text: "With ρ at 0 no evidence is asked for." }];
  if (name === "pe") return [{ text: `It translated nothing clearly, but had been put off ${times(word.deferred)}, and patience ends there.` }];
  return [{ text: `The policy ${name} decided so.` }];
}

/** The bar falls from ρ to a third of it as the speaker gets ahead; below that only the pace can have made it speak.
 * @param {TargetWord} word @param {number} rho @returns {string} */
function weighing({ doubt, deferred }, rho) {
  if (doubt === null || doubt < rho / 3) return "The model was not sure of it, but the speaker was getting too far ahead.";
  if (doubt < rho) return "The model was sure enough of it for how far ahead the speaker was.";
  return deferred ? "It had waited, and what it heard meanwhile made it sure." : "The model was sure of it at once.";
}

/** @param {Sentence} sentence @param {TargetWord} word @returns {[string, string][]} */
function facts(sentence, word) {
  /** @type {[string, string][]} */
  const known = [["heard", sentence.done ? `${word.heard} of ${sentence.source.length} words` : words(word.heard)]];
  const sure = word.stability ?? word.confidence;
  if (sure !== null) known.push(["sure", `${Math.round(100 * sure)} %`]);
  if (word.deferred) known.push(["put off", times(word.deferred)]);
  known.push(["after", seconds(word.lag)]);
  return known;
}

/** The same explanation as one plain text, for a screen reader.
 * @param {Explanation} explanation @returns {string} */
export function spoken({ runs, rises, facts: known }) {
  const why = runs.map((run) => run.text).join("");
  const from = rises.map(({ word, gain }) => `${word} rose by ${gain.toFixed(2)}`).join(", ");
  return [why, from && `${from}.`, `${known.map(([name, value]) => `${name} ${value}`).join(", ")}.`].filter(Boolean).join(" ");
}

/** @param {string[]} names @param {boolean} now whether the last was heard just then @returns {Run[]} */
function listed(names, now) {
  return names.flatMap((text, n) => {
    const glue = n === 0 ? "" : n < names.length - 1 ? ", " : now ? " and now " : " and ";
    return glue ? [{ text: glue }, { text, strong: true }] : [{ text, strong: true }];
  });
}

/** @param {number} count @returns {string} */
export function words(count) {
  return count === 1 ? "1 word" : `${count} words`;
}

/** What policies count: a short word is one piece, a long one may have several.
 * @param {number} count @returns {string} */
function pieces(count) {
  return count === 1 ? "1 word piece" : `${count} word pieces`;
}

/** @param {number} count @returns {string} */
function times(count) {
  return count === 1 ? "once" : count === 2 ? "twice" : `${count} times`;
}

/** @param {number} value @returns {string} */
export function seconds(value) {
  return value < 9.95 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}
