/** The transcript as files: plain text, and captions in the SubRip format with their times. */

/**
 * @typedef {{text: string, at: number}} TimedWord  text with the space before it; seconds since the start
 * @typedef {{source: string, words: TimedWord[]}} TimedSentence
 * @typedef {{from: number, to: number, text: string}} Cue
 */

export const LINE = 42; // characters that are comfortably read on one line of a caption
export const LONGEST = 6; // seconds a caption stays at most
export const SHORTEST = 1; // and at least, unless the next one comes sooner

/** Seconds as 00:01:02,345.
 * @param {number} seconds @returns {string} */
export function clock(seconds) {
  const ms = Math.max(0, Math.round(seconds * 1000));
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return `${two(Math.floor(ms / 3600000))}:${two(Math.floor(ms / 60000) % 60)}:${two(Math.floor(ms / 1000) % 60)},${String(ms % 1000).padStart(3, "0")}`;
}

/** Words gathered into captions of at most two lines; a caption never reaches over the end of a sentence.
 * @param {TimedSentence[]} sentences @returns {Cue[]} */
export function cues(sentences) {
  /** @type {Cue[]} */
  const made = [];
  for (const { words } of sentences) {
    /** @type {Cue | null} */
    let open = null;
    for (const word of words) {
      const full = open && (open.text.length + word.text.length > 2 * LINE || word.at - open.from > LONGEST);
      if (!open || (full && /^\s/.test(word.text))) {
        open = { from: word.at, to: word.at, text: "" };
        made.push(open);
      }
      open.text = (open.text + word.text).trimStart();
      open.to = word.at;
    }
  }
  return made.map((cue, n) => ({ ...cue, to: ending(cue, made[n + 1]) }));
}

/** @param {Cue} cue @param {Cue | undefined} next @returns {number} */
function ending(cue, next) {
  const readable = Math.max(cue.to + SHORTEST, cue.from + cue.text.length / 15);
  const wanted = Math.min(readable, Math.max(cue.from + LONGEST, cue.to + SHORTEST));
  return next ? Math.max(Math.min(wanted, next.from), cue.from + 0.001) : wanted;
}

/** One or two lines of about equal length.
 * @param {string} text @returns {string} */
export function lines(text) {
  if (text.length <= LINE) return text;
  const middle = text.length / 2;
  let best = -1;
  for (let at = text.indexOf(" "); at >= 0; at = text.indexOf(" ", at + 1)) {
    if (best < 0 || Math.abs(at - middle) < Math.abs(best - middle)) best = at;
  }
  return best < 0 ? text : `${text.slice(0, best)}\n${text.slice(best + 1)}`;
}

/** @param {TimedSentence[]} sentences @returns {string} */
export function srt(sentences) {
  return cues(sentences)
    .map((cue, n) => `${n + 1}\n${clock(cue.from)} --> ${clock(cue.to)}\n${lines(cue.text)}\n`)
    .join("\n");
}

/** Both languages: each sentence as it was said, its translation on the next line, then an empty line.
 * @param {TimedSentence[]} sentences @returns {string} */
export function bilingual(sentences) {
  return sentences.map((sentence) => `${sentence.source}\n${plain([sentence]) || "\n"}`).join("\n");
}

/** One sentence per line.
 * @param {TimedSentence[]} sentences @returns {string} */
export function plain(sentences) {
  return sentences
    .map(({ words }) => words.map((word) => word.text).join("").trim())
    .filter(Boolean)
    .map((line) => `${line}\n`)
    .join("");
}
