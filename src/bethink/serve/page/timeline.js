/** When each stretch of text was fed, by its place in the text. Pure bookkeeping. */

export class Timeline {
  constructor() {
    /** @type {{end: number, time: number}[]} */
    this.marks = [];
  }

  /** @param {number} end where the text fed ends @param {number} time */
  feed(end, time) {
    this.marks.push({ end, time });
  }

  /** When the text up to `offset` had been fed; what lies before it is forgotten.
   * @param {number} offset @param {number} now if it is not known @returns {number} */
  fedAt(offset, now) {
    while (this.marks.length && this.marks[0].end < offset) this.marks.shift();
    return this.marks[0]?.time ?? now;
  }

  /** Positions count anew from `offset`.
   * @param {number} offset */
  shift(offset) {
    for (const mark of this.marks) mark.end -= offset;
  }
}
