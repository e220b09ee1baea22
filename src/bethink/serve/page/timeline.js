/** When each stretch of text was said and which policy held there, by its place in the text. Pure bookkeeping. */

export class Timeline {
  /** @param {string} policy in force at the beginning */
  constructor(policy) {
    /** @type {{end: number, time: number}[]} */
    this.marks = [];
    /** @type {{at: number, policy: string}[]} */
    this.policies = [{ at: 0, policy }];
  }

  /** @param {number} end where the text said ends @param {number} time */
  say(end, time) {
    this.marks.push({ end, time });
  }

  /** @param {number} at @param {string} policy */
  change(at, policy) {
    this.policies.push({ at, policy });
  }

  /** When the text up to `offset` had been said; what lies before it is forgotten.
   * @param {number} offset @param {number} now if it is not known @returns {number} */
  saidAt(offset, now) {
    while (this.marks.length && this.marks[0].end < offset) this.marks.shift();
    return this.marks[0]?.time ?? now;
  }

  /** The policy of a sentence whose first word ends at `offset`; earlier ones are forgotten.
   * @param {number} offset @returns {string} */
  policyAt(offset) {
    while (this.policies.length > 1 && this.policies[1].at < offset) this.policies.shift();
    return this.policies[0].policy;
  }

  /** Positions count anew from `offset`.
   * @param {number} offset */
  shift(offset) {
    for (const mark of this.marks) mark.end -= offset;
    for (const entry of this.policies) entry.at -= offset;
  }
}
