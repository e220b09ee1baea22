/** Dictation through the browser's speech recognition: a word is passed on once two results in a row agree on it. */

/** Which words of a changing guess can be relied on: those that two guesses share, but for the last. Pure. */
export class Agreement {
  constructor() {
    /** @type {string[]} */
    this.before = [];
    this.passed = 0; // words of this utterance already passed on
  }

  /** @param {string} guess @param {boolean} final @returns {string} the text to pass on now */
  hear(guess, final) {
    const words = guess.split(/\s+/).filter(Boolean);
    let agreed = 0;
    while (agreed < words.length && words[agreed] === this.before[agreed]) agreed += 1;
    const until = final ? words.length : Math.min(agreed, words.length - 1);
    const fresh = words.slice(this.passed, until);
    this.passed = final ? 0 : Math.max(this.passed, until);
    this.before = final ? [] : words;
    return fresh.map((word) => `${word} `).join("");
  }
}

/** @returns {any} the browser's recogniser class, or undefined */
export function recogniser() {
  const scope = /** @type {any} */ (window);
  return scope.SpeechRecognition ?? scope.webkitSpeechRecognition;
}

/** Why dictation cannot work on this page, or an empty text.
 * @returns {string} */
export function obstacle() {
  return window.isSecureContext ? "" : "Browsers listen only on pages with HTTPS. Open this page under an https:// address, or on the machine that serves it.";
}

export class Dictation {
  /** @param {(text: string) => void} feed @param {(text: string) => void} interim @param {(on: boolean, trouble: string) => void} changed */
  constructor(feed, interim, changed) {
    this.feed = feed;
    this.interim = interim;
    this.changed = changed;
    this.on = false;
    this.trouble = "";
    /** @type {any} */
    this.engine = null;
  }

  /** @param {string} language a code, or empty for the browser's own */
  start(language) {
    const Recogniser = recogniser();
    const engine = new Recogniser();
    const agreement = new Agreement();
    engine.continuous = engine.interimResults = true;
    if (language) engine.lang = language;
    engine.onresult = (/** @type {any} */ event) => this.result(event, agreement);
    engine.onerror = (/** @type {any} */ event) => this.failed(event.error);
    engine.onend = () => this.ended();
    this.engine = engine;
    this.on = true;
    this.trouble = "";
    engine.start();
    this.changed(true, "");
  }

  stop() {
    this.on = false;
    this.engine?.stop(); // `ended` follows
    this.interim("");
  }

  /** @param {any} event @param {Agreement} agreement */
  result(event, agreement) {
    let open = "";
    for (let n = event.resultIndex; n < event.results.length; n += 1) {
      const { isFinal, 0: best } = event.results[n];
      if (isFinal) this.feed(`${agreement.hear(best.transcript, true).trimEnd()}\n`); // a pause ends the sentence
      else open += best.transcript;
    }
    if (!open) return this.interim("");
    const sure = agreement.hear(open, false);
    if (sure) this.feed(sure);
    this.interim(open.trim().split(/\s+/).slice(agreement.passed).join(" "));
  }

  /** @param {string} error */
  failed(error) {
    if (error === "no-speech" || error === "aborted") return;
    this.trouble = error === "not-allowed" ? "The browser was not allowed to listen." : `Speech recognition stopped: ${error}.`;
    this.on = false;
  }

  /** Recognisers stop by themselves after a silence; go on until told otherwise. */
  ended() {
    if (this.on) this.engine.start();
    else this.changed(false, this.trouble);
  }
}
