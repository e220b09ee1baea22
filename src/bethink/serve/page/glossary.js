/** Terms and how they are to be written. This browser keeps them, apart for each pair of languages. */

import { $ } from "./dom.js";
import { sourceLanguage, targetLanguage } from "./samples.js";

/** @typedef {{terms: Record<string, string>, trouble: string}} Parsed */

const KEY = "bethink-glossary";

/** One term on each line, then a tab, = or → and its translation; # begins a comment.
 * @param {string} text @returns {Parsed} */
export function parse(text) {
  /** @type {Record<string, string>} */
  const terms = Object.create(null);
  for (const [number, line] of text.split(/\r\n|\r|\n/).entries()) {
    if (!line.trim() || line.trim().startsWith("#")) continue;
    const [, term, translation] = (line.match(line.includes("\t") ? /^(.*?)\t(.*)$/ : /^(.*?)[=→](.*)$/) ?? ["", "", ""]).map(unquoted);
    if (!term || !translation) return { terms: {}, trouble: `Line ${number + 1} is not a term, a tab or =, and its translation.` };
    terms[term] = translation;
  }
  return { terms, trouble: "" };
}

/** As TOML and spreadsheets write a term.
 * @param {string} text */
function unquoted(text) {
  return text.trim().replace(/^"(.*)"$/, "$1").trim();
}

export class Glossary {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    this.box = /** @type {HTMLTextAreaElement} */ ($("glossary-terms"));
    this.file = /** @type {HTMLInputElement} */ ($("glossary-file"));
    const dialog = /** @type {HTMLDialogElement} */ ($("glossary-dialog"));
    $("glossary").addEventListener("click", () => {
      this.notice("");
      this.box.value = this.text;
      dialog.showModal();
    });
    this.file.addEventListener("change", () => this.open());
    $("glossary-use").addEventListener("click", () => this.use() && dialog.close());
  }

  get key() {
    return `${KEY}-${sourceLanguage(this.app.model)}-${targetLanguage(this.app.model)}`;
  }

  get text() {
    return localStorage.getItem(this.key) ?? "";
  }

  /** What a stream of the chosen model is told. */
  get terms() {
    return parse(this.text).terms;
  }

  /** Put a file's lines into the box; they are used when the reader says so. */
  async open() {
    const file = this.file.files?.[0];
    if (file) this.box.value = await file.text();
    this.file.value = "";
    this.notice(parse(this.box.value).trouble);
  }

  /** Whether the terms could be used; a talk begins with them. */
  use() {
    const { terms, trouble } = parse(this.box.value);
    this.notice(trouble);
    if (trouble) return false;
    if (this.box.value !== this.text) {
      localStorage.setItem(this.key, Object.keys(terms).length ? this.box.value : "");
      this.app.begin();
    }
    this.show();
    return true;
  }

  /** Mark the button if there are terms. */
  show() {
    $("glossary").classList.toggle("strong", Object.keys(this.terms).length > 0);
  }

  /** @param {string} text */
  notice(text) {
    $("glossary-notice").textContent = text;
  }
}
