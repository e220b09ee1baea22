/** What the page keeps to go on after a lost connection: the last resume point, and everything fed since. No I/O. */

/**
 * @typedef {{model: string, policy: string, sentence: number, step: number, offset: number, spoken: boolean}} ResumePoint
 * @typedef {{kind: "text" | "policy", at: number, body: string}} Entry  `at` counts UTF-16 units from the stream's beginning
 */

export const PIECE = 8000; // UTF-16 units: as JSON at most 48,000 bytes, below the smallest frame limit a server has

export class ResumeBuffer {
  /** @param {string} model @param {string} policy @param {string} [room] the speaker's key of a room */
  constructor(model, policy, room = "") {
    this.model = model;
    this.room = room;
    this.policy = policy; // the one the first start asks for
    this.tail = false; // whether to ask for what may come next
    /** @type {Record<string, string>} */
    this.glossary = {}; // terms and how to write them
    /** @type {ResumePoint | null} */
    this.point = null;
    this.seen = 0;
    this.check = "";
    this.position = 0; // the end of what was fed
    this.generation = 0; // how often the stream had to begin anew
    this.dropped = 0; // where, in the text before, the last new beginning lies
    /** @type {Entry[]} */
    this.kept = [];
  }

  /** Note text about to be sent; returns it cut into messages.
   * @param {string} text @returns {object[]} */
  feed(text) {
    const messages = [];
    for (let from = 0; from < text.length; from += PIECE) {
      const body = text.slice(from, from + PIECE);
      this.kept.push({ kind: "text", at: this.position, body });
      this.position += body.length;
      messages.push({ type: "text", text: body });
    }
    return messages;
  }

  /** Note a change of policy at this place in the text.
   * @param {string} policy @returns {object[]} */
  change(policy) {
    const last = this.kept.at(-1);
    if (last?.kind === "policy" && last.at === this.position) this.kept.pop();
    this.kept.push({ kind: "policy", at: this.position, body: policy });
    return [{ type: "policy", policy }];
  }

  /** The first message of a connection.
   * @param {string} [token] @returns {object} */
  start(token) {
    /** @type {Record<string, unknown>} */
    const message = { type: "start", version: 2, model: this.model };
    if (token) message.token = token;
    if (this.room) message.room = this.room;
    if (this.tail) message.tail = true;
    if (Object.keys(this.glossary).length) message.glossary = this.glossary;
    if (this.point) {
      const fresh = this.seen === this.point.step;
      message.resume = { ...this.point, seen: this.seen, ...(fresh ? {} : { check: this.check }) };
    } else {
      message.policy = this.policy;
    }
    return message;
  }

  /** Everything to be sent again after `ready`, in order.
   * @returns {object[]} */
  replay() {
    return this.kept.map(({ kind, body }) => (kind === "text" ? { type: "text", text: body } : { type: "policy", policy: body }));
  }

  /** @param {ResumePoint} point */
  ready(point) {
    this.point ??= point;
    this.seen = Math.max(this.seen, this.point.step); // in a room, a stream counts on from the one before it
  }

  /** Whether the step is new; false for one that was seen before.
   * @param {{n: number, check?: string}} step @returns {boolean} */
  step(step) {
    if (step.n < this.seen) return false;
    this.seen = step.n + 1;
    this.check = step.check ?? "";
    return true;
  }

  /** A sentence is finished: what stands before its resume point need not be kept.
   * @param {ResumePoint} point */
  finish(point) {
    this.point = point;
    this.kept = this.kept.flatMap((entry) => {
      if (entry.at >= point.offset) return [entry];
      const rest = entry.kind === "text" ? entry.body.slice(point.offset - entry.at) : "";
      return rest ? [{ kind: entry.kind, at: point.offset, body: rest }] : [];
    });
  }

  /** The server cannot continue word for word: begin a new stream with the open sentence. */
  anew() {
    const offset = this.point?.offset ?? 0;
    this.policy = this.point?.policy ?? this.policy;
    this.kept = this.kept.map((entry) => ({ ...entry, at: entry.at - offset }));
    this.position -= offset;
    this.dropped = offset;
    this.point = null;
    this.seen = 0;
    this.check = "";
    this.generation += 1;
  }
}

/** Seconds to wait before attempt n (from 0): 0.5 doubling up to 10, varied by a quarter.
 * @param {number} attempt @param {number} chance from 0 to 1 @returns {number} */
export function pause(attempt, chance) {
  return Math.min(10, 0.5 * 2 ** attempt) * (0.75 + 0.5 * chance);
}

/** What a close means: whether to connect again by ourselves, to rest until there is more text, to begin anew, or to stop.
 * @param {number} code @param {string} reason the code of the last fatal error, if any
 * @returns {"resume" | "wait" | "rest" | "anew" | "stop" | "done"} */
export function meaning(code, reason) {
  if (code === 1000) return "done";
  if (code === 4408 || reason === "idle") return "rest";
  if (code === 4409) return "anew";
  if (code === 4429 || code === 4503) return "wait";
  return [1007, 1009, 4400, 4401, 4404, 4413].includes(code) ? "stop" : "resume";
}
