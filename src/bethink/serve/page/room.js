/** A room: listeners follow this page's text on their own devices. Opens it, shows its link and QR code, and closes it. */

import { $ } from "./dom.js";
import { sourceLanguage } from "./samples.js";
import { copy } from "./save.js";
import * as server from "./server.js";

/** @typedef {{room: string, models: string[], speaker: string, listener: string}} Keys */

const KEY = "bethink-room"; // in this tab's storage only, so that a reload goes on in the same room
const COUNT = 5000; // ms between looks at how many listen
const LOCAL = /^(localhost|.*\.localhost|127\..*|\[::1\])$/; // hosts that are this computer

export class Room {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    /** @type {Keys | null} */
    this.keys = null;
    this.timer = 0;
    const dialog = /** @type {HTMLDialogElement} */ ($("room-dialog"));
    $("room").addEventListener("click", () => {
      dialog.showModal();
      this.show();
    });
    $("room-open").addEventListener("click", () => this.open());
    $("room-end").addEventListener("click", () => this.end());
    $("room-copy").addEventListener("click", async () => this.notice((await copy(this.link)) ? "Copied." : "The browser does not allow it."));
    this.restore();
  }

  /** What a session needs to speak in the room.
   * @returns {{room?: string, others?: string[]}} */
  stream() {
    if (!this.keys?.models.includes(this.app.model.name)) return {};
    return { room: this.keys.speaker, others: this.keys.models.filter((name) => name !== this.app.model.name) };
  }

  get link() {
    return new URL(`listen.html#${this.keys?.listener}`, document.baseURI).href;
  }

  /** @param {string} [path] @param {Record<string, string>} [more] */
  address(path = "", more = {}) {
    const [name, token] = (this.keys?.listener ?? "").split(".");
    return `v1/rooms/${name}${path}?${new URLSearchParams({ token, ...more })}`;
  }

  async open() {
    const language = sourceLanguage(this.app.model);
    const others = this.app.models.filter((one) => one !== this.app.model && sourceLanguage(one) === language);
    const room = /** @type {HTMLInputElement} */ ($("room-name")).value.trim();
    const body = JSON.stringify({ room, models: [this.app.model, ...others].map((one) => one.name) });
    const headers = { "Content-Type": "application/json", ...(server.token() ? { Authorization: `Bearer ${server.token()}` } : {}) };
    const answer = await fetch("v1/rooms", { method: "POST", body, headers }).catch(() => null);
    const got = await answer?.json().catch(() => null);
    if (!answer?.ok) return this.notice(got?.error?.message ?? "The server does not answer; try again.");
    sessionStorage.setItem(KEY, JSON.stringify(got));
    this.use(got);
  }

  /** After a reload, go on in the room if it is still there. */
  async restore() {
    this.keys = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    if (!this.keys) return;
    const answer = await fetch(this.address()).catch(() => null);
    if (answer?.status === 404) this.leave();
  }

  /** The speaker's token is in no address: those are kept in the logs of proxies. */
  async end() {
    if (!this.keys || !confirm("Close the room for all listeners and delete its text?")) return;
    const headers = { Authorization: `Bearer ${this.keys.speaker.split(".")[1]}` };
    const answer = await fetch(`v1/rooms/${this.keys.room}`, { method: "DELETE", headers }).catch(() => null);
    if (answer?.ok || answer?.status === 404) this.leave();
    else this.notice("The server does not answer; the room is still open. Try again.");
  }

  leave() {
    sessionStorage.removeItem(KEY);
    this.use(null);
  }

  /** The server has no such room any more; what was said in it stays on this page. */
  gone() {
    sessionStorage.removeItem(KEY);
    this.keys = null;
    this.show();
    this.notice("The room has ended: the server does not have it any more.");
  }

  /** @param {Keys | null} keys */
  use(keys) {
    this.keys = keys;
    this.app.begin();
    this.show();
  }

  show() {
    this.notice("");
    $("room-closed").hidden = this.keys !== null;
    $("room-opened").hidden = this.keys === null;
    $("room").classList.toggle("strong", this.keys !== null);
    if (!this.keys) return;
    const link = /** @type {HTMLAnchorElement} */ ($("room-link"));
    link.href = link.textContent = this.link;
    $("room-local").hidden = !LOCAL.test(location.hostname);
    /** @type {HTMLAnchorElement} */ ($("room-obs")).href = this.link.replace("listen.html", "listen.html?view=captions&size=48&lines=2");
    for (const kind of ["vtt", "srt"]) /** @type {HTMLAnchorElement} */ ($(`room-${kind}`)).href = this.address(`/captions.${kind}`);
    const base = new URL(".", document.baseURI).href;
    /** @type {HTMLImageElement} */ ($("room-code")).src = this.address("/qr.svg", { base });
    /** @type {HTMLAnchorElement} */ ($("room-large")).href = this.address("/qr.svg", { base });
    this.count();
  }

  async count() {
    if (!this.keys) return;
    const answer = await fetch(this.address()).catch(() => null);
    const about = answer?.ok ? await answer.json() : null;
    $("room-count").textContent = about ? `${about.listeners} listening now` : "";
    clearTimeout(this.timer);
    if (/** @type {HTMLDialogElement} */ ($("room-dialog")).open) this.timer = setTimeout(() => this.count(), COUNT);
  }

  /** @param {string} text */
  notice(text) {
    $("room-notice").textContent = text;
  }
}
