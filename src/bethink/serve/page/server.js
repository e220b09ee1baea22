/** What the page asks the server besides the stream: which models there are, and, where it wants one, its token. */

import { pause } from "./resume.js";

/** @typedef {import("./samples.js").Model} Model */

const KEY = "bethink-token"; // in this tab's storage only

/** @returns {string} */
export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

/** @param {string} [room] the name of a room, for its speaker @returns {string} */
export function streamUrl(room = "") {
  const url = new URL(room ? `v1/rooms/${room}/stream` : "v1/stream", document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.hash = url.search = "";
  return url.href;
}

/** The models, asked for until there is an answer.
 * @param {(detail: string) => void} trouble @param {HTMLElement} form asks for the token @returns {Promise<Model[]>} */
export async function models(trouble, form) {
  for (let attempt = 0; ; attempt += 1) {
    const response = await fetch("v1/models", { headers: token() ? { Authorization: `Bearer ${token()}` } : {} }).catch(() => null);
    if (response?.ok) return (await response.json()).models;
    if (response?.status === 401) {
      trouble(token() ? "this token is wrong; enter it again" : "this server requires its token");
      await asked(form);
    } else {
      trouble("the server does not answer; trying again …");
      await new Promise((wake) => setTimeout(wake, 1000 * pause(attempt, Math.random())));
    }
  }
}

/** @param {HTMLElement} form @returns {Promise<void>} */
function asked(form) {
  form.hidden = false;
  const input = /** @type {HTMLInputElement} */ (form.querySelector("input"));
  input.focus();
  return new Promise((done) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      form.hidden = true;
      done();
    };
  });
}
