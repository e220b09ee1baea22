/** Typing and pasting: a word leaves the box once white space shows that it is complete. */

/** What of a text can be passed on, and what has to wait for its end. Pure.
 * @param {string} text @returns {[string, string]} */
export function cut(text) {
  const [complete] = text.match(/^[\s\S]*\s/) ?? [""];
  return [complete, text.slice(complete.length)];
}

/** A pasted text as one speaks it: wrapped lines belong together, an empty line or the end completes the sentence. Pure.
 * @param {string} text @returns {string} */
export function unwrap(text) {
  const paragraphs = text.replaceAll("\r\n", "\n").split(/\n[^\S\n]*\n+/);
  return paragraphs.map((paragraph) => `${paragraph.replaceAll("\n", " ").trim()}\n`).join("").replace(/^\n+/, "");
}

/** @param {HTMLTextAreaElement} box @param {(text: string) => void} feed */
export function compose(box, feed) {
  const pass = () => {
    const [complete, rest] = cut(box.value);
    if (!complete) return;
    box.value = rest;
    feed(complete);
  };
  box.addEventListener("input", (event) => {
    if (!(/** @type {InputEvent} */ (event).isComposing)) pass();
  });
  box.addEventListener("compositionend", pass);
  box.addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!/\s/.test(text.trim())) return; // a single word: let it be edited
    event.preventDefault();
    feed(box.value + unwrap(text));
    box.value = "";
  });
  pass(); // what was typed before anyone listened
}
