/** The transcript: steps, which speak of tokens, become sentences of words, each with what explains it. No DOM, no clock. */

/**
 * @typedef {{code: string, value?: number, threshold?: number}} Reason
 * @typedef {{n: number, sentence: number, action: "READ" | "WRITE", text: string, token: number, read: number, heard: number,
 *   written: number, end?: boolean, deferred?: number, offset?: number, confidence?: number, stability?: number, degrees?: number[],
 *   gain?: number[], attention?: number[], evidence?: number[], reason?: Reason, copied?: string, term?: boolean, notice?: string, correction?: string,
 *   text_stability?: number}} Step  `degrees`, `gain`, `attention` and `evidence` count source tokens
 * @typedef {{text: string, at: number, notice: string}} SourceWord  `at`: seconds when it was fed; `notice`: number, name or nothing
 * @typedef {{text: string, at: number, heard: number, confidence: number | null, stability: number | null, deferred: number,
 *   reason: Reason, gain: [number, number][], attention?: [number, number][], evidence: number[], lag: number, doubtful?: boolean}} TargetWord
 *   `text` has the space before it; `gain`, `attention` and `evidence` count source words
 * @typedef {{source: string, words: {text: string, at: number}[]}} Folded
 */

export const KEEP = 40; // sentences kept with all that explains them
const LEAST = 0.01; // smaller gains say nothing
const DOUBTFUL = 0.98; // stability below which words that were shown early are marked
const NOTED = 12; // numbers and names kept in sight
export const FOLDED = 5000; // sentences kept as text: more than ten hours of talk

export class Sentence {
  /** @param {string} key @param {number} number */
  constructor(key, number) {
    this.key = key;
    this.number = number; // from 0, as shown
    this.note = "";
    /** @type {SourceWord[]} */
    this.source = [];
    /** @type {number[]} */
    this.wordOf = []; // of each source token; the end of the sentence is one past the last word
    /** @type {TargetWord[]} */
    this.target = [];
    this.done = false;
    this.correction = ""; // what puts right a meaning that was written wrongly
    this.tail = ""; // what may come next: shown in grey, kept nowhere
    /** @type {Step[]} */
    this.tokens = []; // writes whose text has not come out yet
    /** @type {Step[]} */
    this.newest = []; // the writes that made the newest word
    /** @type {boolean | null} */
    this.atOnce = null; // whether text comes with its own token, or with the first of the next word
  }

  /** @param {Step} step @param {number} now @param {number} fedAt */
  take(step, now, fedAt) {
    if (step.action === "WRITE") return this.write(step, now);
    this.wordOf[step.read - 1] = step.end ? step.heard : step.heard - 1;
    if (step.text) this.source.push({ text: step.text, at: fedAt, notice: step.notice ?? "" });
  }

  /** @param {Step} step @param {number} now */
  write(step, now) {
    this.atOnce ??= Boolean(step.text);
    this.correction = step.correction ?? "";
    const held = this.tokens;
    this.settle(held.at(-1) ?? this.newest.at(-1), step.degrees);
    this.tokens = step.text && !this.atOnce ? [step] : step.text ? [] : [...held, step];
    if (step.text || step.end) this.tail = "";
    if (!step.text) return;
    this.newest = this.atOnce ? [...held, step] : held.length ? held : [step];
    const word = this.word(step.text, this.newest, now);
    word.doubtful = (step.text_stability ?? 1) < DOUBTFUL;
    if (step.copied) word.reason = { code: step.term ? "term" : "copied" };
    this.target.push(word);
  }

  /** Where the policy did not look ahead, a token's gain is known from the degrees before the next one.
   * @param {Step | undefined} token @param {number[] | undefined} after */
  settle(token, after) {
    if (!token?.degrees || !after || token.gain) return;
    token.gain = token.degrees.map((degree, at) => after[at] - degree);
    const word = this.target.at(-1);
    if (!word || !this.newest.includes(token)) return;
    word.gain = this.gains(this.newest);
    word.lag = this.lagOf(word, this.target.length - 1);
  }

  /** @param {string} text @param {Step[]} own the steps of the word's tokens @param {number} now @returns {TargetWord} */
  word(text, own, now) {
    const last = /** @type {Step} */ (own.at(-1));
    const word = {
      text,
      at: now,
      heard: last.heard,
      confidence: least(own, (step) => step.confidence),
      stability: least(own, (step) => step.stability),
      deferred: Math.max(...own.map((step) => step.deferred ?? 0)),
      gain: this.gains(own),
      attention: this.attention(own),
      reason: deciding(own).reason ?? { code: "policy" },
      evidence: [...new Set(own.flatMap((step) => step.evidence ?? []).map((at) => this.wordOf[at]))],
      lag: 0,
    };
    word.lag = this.lagOf(word, this.target.length);
    return word;
  }

  /** By source word the largest gain of any of the tokens, the strongest first.
   * @param {Step[]} steps @returns {[number, number][]} */
  gains(steps) {
    /** @type {Map<number, number>} */
    const best = new Map();
    for (const { gain = [] } of steps) {
      gain.forEach((rise, at) => rise >= LEAST && best.set(this.wordOf[at], Math.max(rise, best.get(this.wordOf[at]) ?? 0)));
    }
    return [...best].sort((a, b) => b[1] - a[1]);
  }

  /** By source word the attention of the tokens on average, the strongest first; only models without degrees have it.
   * @param {Step[]} steps @returns {[number, number][]} */
  attention(steps) {
    /** @type {Map<number, number>} */
    const sums = new Map();
    for (const { attention = [] } of steps) {
      attention.forEach((share, at) => sums.set(this.wordOf[at], (sums.get(this.wordOf[at]) ?? 0) + share / steps.length));
    }
    return [...sums].sort((a, b) => b[1] - a[1]);
  }

  /** Seconds since the source word was fed that it mostly translates; without degrees, the word at the same place.
   * @param {{gain: [number, number][], heard: number, at: number}} word @param {number} place @returns {number} */
  lagOf(word, place) {
    const best = word.gain.find(([at]) => at < this.source.length);
    const origin = this.source[best ? best[0] : Math.min(place, word.heard - 1, this.source.length - 1)];
    return origin ? Math.max(0, word.at - origin.at) : 0;
  }

  get sourceText() {
    return this.source.map((word) => word.text).join(" ");
  }

  get text() {
    return this.target.map((word) => word.text).join("").trim();
  }

  /** Source words heard and not yet answered. */
  get behind() {
    return this.done ? 0 : Math.max(0, this.source.length - this.target.length);
  }
}

/** The last numbers and names that were heard, neighbours of one kind together.
 * @param {Sentence[]} sentences @returns {string[]} */
export function noted(sentences) {
  /** @type {string[]} */
  const found = [];
  for (const { source } of sentences) {
    source.forEach(({ text, notice }, at) => {
      const word = text.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}%]+$/gu, "");
      if (notice && notice === source[at - 1]?.notice) found[found.length - 1] += ` ${word}`;
      else if (notice) found.push(word);
    });
  }
  return found.slice(-NOTED);
}

export class Transcript {
  constructor() {
    /** @type {Sentence[]} */
    this.sentences = [];
    /** @type {Folded[]} */
    this.folded = [];
    this.dropped = 0; // sentences too old to be kept even as text
    this.count = 0;
  }

  get open() {
    return this.sentences.at(-1);
  }

  /** @param {Step} step @param {number} generation @param {number} now @param {number} fedAt
   * @returns {Sentence} the sentence that changed */
  step(step, generation, now, fedAt) {
    const key = `${generation}:${step.sentence}`;
    let sentence = this.sentences.findLast((one) => one.key === key);
    if (!sentence) {
      sentence = new Sentence(key, this.count++);
      this.sentences.push(sentence);
    }
    sentence.take(step, now, fedAt);
    return sentence;
  }

  /** @param {{sentence: number, text: string}} tail @param {number} generation @returns {Sentence | undefined} */
  foresee(tail, generation) {
    const sentence = this.sentences.findLast((one) => one.key === `${generation}:${tail.sentence}`);
    if (sentence) sentence.tail = tail.text;
    return sentence;
  }

  /** @param {number} number @param {number} generation @returns {Sentence | undefined} */
  finish(number, generation) {
    const sentence = this.sentences.findLast((one) => one.key === `${generation}:${number}`);
    if (sentence) sentence.done = true;
    return sentence;
  }

  /** Old sentences become text; returns those folded away by this call.
   * @returns {Sentence[]} */
  fold() {
    const old = this.sentences.splice(0, Math.max(0, this.sentences.length - KEEP));
    this.folded.push(...old.map(slim));
    const excess = Math.max(0, this.folded.length - FOLDED);
    this.folded.splice(0, excess);
    this.dropped += excess;
    return old;
  }

  /** Everything there is, for files.
   * @returns {Folded[]} */
  all() {
    return [...this.folded, ...this.sentences.map(slim)];
  }
}

/** A correction follows the words of its sentence.
 * @param {Sentence} sentence @returns {Folded} */
function slim(sentence) {
  const added = sentence.correction ? ` — correction: ${sentence.correction}`.match(/\s*\S+/g) ?? [] : [];
  const last = sentence.target.at(-1)?.at ?? 0;
  const words = [...sentence.target.map(({ text, at }) => ({ text, at })), ...added.map((text) => ({ text, at: last }))];
  return { source: sentence.sourceText, words };
}

/** Of the tokens of a word, the one whose reason speaks for the word: one with evidence, else the least sure of those written
 * before the source was complete.
 * @param {Step[]} steps @returns {Step} */
function deciding(steps) {
  const open = steps.filter((step) => step.reason?.code !== "source_complete");
  const among = [steps.filter((step) => step.evidence?.length), open, steps].find((some) => some.length) ?? steps;
  const sure = (/** @type {Step} */ step) => step.stability ?? step.confidence ?? 1;
  return among.reduce((best, step) => (sure(step) < sure(best) ? step : best));
}

/** The smallest of the numbers that the steps have.
 * @param {Step[]} steps @param {(step: Step) => number | undefined} number @returns {number | null} */
function least(steps, number) {
  const known = steps.map(number).filter((value) => value !== undefined);
  return known.length ? Math.min(...known) : null;
}
