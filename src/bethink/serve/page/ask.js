/** Asking about a word: by pointing, tapping, or with Tab and the arrow keys. A click or Enter holds the answer open. */

/** @typedef {import("./rows.js").Rows} Rows @typedef {import("./rows.js").Row} Row @typedef {import("./lens.js").Lens} Lens */

export class Asking {
  /** @param {Rows} rows @param {Lens} lens @param {HTMLElement} describer hidden text that describes the focused word
   * @param {(opened: boolean) => void} tapped @param {() => void} left */
  constructor(rows, lens, describer, tapped, left) {
    this.rows = rows;
    this.lens = lens;
    this.describer = describer;
    this.tapped = tapped;
    this.left = left;
    /** @type {{row: Row, place: number} | null} */
    this.about = null;
    /** @type {HTMLElement | null} */
    this.held = null;
    this.listen(rows.rows);
  }

  /** @param {HTMLElement} area */
  listen(area) {
    area.addEventListener("pointerover", (event) => event.pointerType === "mouse" && !this.held && this.show(wordAt(event)));
    area.addEventListener("pointerleave", () => this.held || this.hide());
    area.addEventListener("focusin", (event) => this.show(wordAt(event)));
    area.addEventListener("focusout", () => this.held || this.hide());
    area.addEventListener("click", (event) => this.click(event));
    area.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {HTMLElement | null} word */
  show(word) {
    const found = word && this.rows.find(word);
    if (!word || !found) return;
    this.rows.dim();
    this.about = found;
    this.rows.light(found.row, found.place);
    this.describer.textContent = this.lens.ask(found.row.sentence, found.place);
    word.setAttribute("aria-describedby", this.describer.id);
    this.lens.draw(found.row.sentence, found.place);
  }

  /** The sentence has grown while its word is being asked about. */
  refresh() {
    if (this.about) this.show(/** @type {HTMLElement} */ (this.about.row.target.children[this.about.place]));
  }

  hide() {
    if (!this.about) return;
    this.about = this.held = null;
    this.rows.dim();
    this.lens.rest();
    this.left();
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const path = target.closest(".glyph");
    const word = path ? /** @type {HTMLElement | null} */ (path.parentElement?.querySelector(".target .word")) : wordAt(event);
    if (!word) return this.held ? this.hide() : undefined;
    if (this.held === word) return this.release();
    this.held = word;
    this.rows.reach(word);
    this.show(word);
    this.tapped(true);
  }

  release() {
    this.hide();
    this.tapped(false);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const word = wordAt(event);
    if (!word) return;
    const next = this.neighbour(word, event.key);
    if (next) {
      this.held = null;
      this.rows.reach(next);
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") word.click();
    else if (event.key === "Escape") this.release();
    else return;
    event.preventDefault();
  }

  /** @param {HTMLElement} word @param {string} key @returns {HTMLElement | undefined} */
  neighbour(word, key) {
    if (key === "ArrowUp" || key === "ArrowDown") return this.across(word, key === "ArrowUp" ? -1 : 1);
    const words = /** @type {HTMLElement[]} */ ([...this.rows.rows.querySelectorAll(".target .word")]);
    const at = words.indexOf(word);
    const places = /** @type {Record<string, number>} */ ({ ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: words.length - 1 });
    return words[places[key] ?? -1];
  }

  /** The word at about the same place in the sentence above or below.
   * @param {HTMLElement} word @param {number} by @returns {HTMLElement | undefined} */
  across(word, by) {
    const rows = [...this.rows.byKey.values()].filter((row) => row.target.childElementCount);
    const found = this.rows.find(word);
    const row = found && rows[rows.indexOf(found.row) + by];
    return row ? /** @type {HTMLElement} */ (row.target.children[Math.min(found.place, row.target.childElementCount - 1)]) : undefined;
  }
}

/** @param {Event} event @returns {HTMLElement | null} */
function wordAt(event) {
  return /** @type {HTMLElement} */ (event.target).closest(".target .word");
}
