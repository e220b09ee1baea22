/** Steps of the socket speak of source tokens; people see words. The READs say which word each token belongs to. No DOM. */

/** @typedef {[number, number][]} Gains  pairs of a source word, from 0, and by how much its translation degree rose */

const LEAST = 0.01; // smaller rises say nothing

export class ByWord {
  constructor() {
    this.key = "";
    /** @type {number[]} */
    this.wordOf = []; // of each source token of the sentence; its end is one past the last word
    /** @type {any} */
    this.before = null; // the last WRITE
  }

  /** The step with `gain` and `evidence` by word and, where the WRITE before had no gain, `settled`: what that one turned out to
   * translate, by how much the degrees have risen since.
   * @param {any} step @param {number} generation @returns {any} */
  tell(step, generation) {
    const key = `${generation}/${step.sentence}`;
    if (key !== this.key) [this.key, this.wordOf, this.before] = [key, [], null];
    if (step.action === "READ") {
      this.wordOf[step.read - 1] = step.end ? step.heard : step.heard - 1;
      return step;
    }
    const before = this.before;
    this.before = step;
    const told = { ...step };
    if (step.gain) told.gain = this.gains(step.gain);
    if (step.evidence) told.evidence = [...new Set(step.evidence.map((/** @type {number} */ at) => this.wordOf[at]))];
    if (before?.degrees && step.degrees && !before.gain) {
      told.settled = this.gains(before.degrees.map((/** @type {number} */ degree, /** @type {number} */ at) => step.degrees[at] - degree));
    }
    return told;
  }

  /** @param {number[]} rises of each source token @returns {Gains} the largest of each word */
  gains(rises) {
    /** @type {Map<number, number>} */
    const best = new Map();
    rises.forEach((rise, at) => {
      const word = this.wordOf[at];
      if (rise >= LEAST) best.set(word, Math.max(rise, best.get(word) ?? 0));
    });
    return [...best];
  }
}
