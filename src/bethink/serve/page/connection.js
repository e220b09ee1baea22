/** The connection to the server: one WebSocket at a time, opened again by itself, so that words are neither lost nor changed. */

import { ResumeBuffer, meaning, pause } from "./resume.js";

/**
 * @typedef {"connecting" | "ready" | "waiting" | "resting" | "refused"} State
 * @typedef {{state(state: State, detail: string): void, step(step: any, generation: number): void,
 *   sentence(message: any, generation: number): void, tail?(message: any, generation: number): void, complaint(code: string, message: string): void, anew(): void}} Listener
 */

const PATIENCE = 8000; // ms for an answer to `start`
const SILENCE = 15000; // ms without an answer after text was sent

export class Connection {
  /** @param {string} url @param {ResumeBuffer} buffer @param {Listener} listener @param {string} token */
  constructor(url, buffer, listener, token) {
    this.url = url;
    this.buffer = buffer;
    this.listener = listener;
    this.token = token;
    this.attempt = 0;
    this.closed = false;
    this.up = false; // `ready` has come: text can be sent
    this.resting = false;
    this.reason = ""; // the code and the message of the last fatal error
    this.message = "";
    this.idle = 0; // seconds of silence after which the server hangs up
    this.spoke = -Infinity; // when something was sent last, in ms
    this.after = 0; // seconds that the server asked us to stay away
    this.timer = 0;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.watch = 0;
    this.hungUp = new AbortController();
    window.addEventListener("online", () => this.hurry(), this.hungUp);
    window.addEventListener("offline", () => this.drop(), this.hungUp);
    this.connect();
  }

  /** @param {string} text */
  feed(text) {
    this.send(this.buffer.feed(text));
    if (this.resting) this.connect();
    if (this.up && text.trim() && !this.watch) this.watch = setTimeout(() => this.drop(), SILENCE);
  }

  /** @param {string} policy */
  change(policy) {
    this.send(this.buffer.change(policy));
  }

  /** Hang up for good. */
  close() {
    this.closed = true;
    this.hungUp.abort();
    this.calm();
    clearTimeout(this.timer);
    this.socket?.close(1000);
  }

  /** @param {object[]} messages */
  send(messages) {
    if (!this.up || !messages.length) return;
    for (const message of messages) this.socket?.send(JSON.stringify(message));
    this.spoke = performance.now();
  }

  connect() {
    clearTimeout(this.timer);
    if (this.closed) return;
    this.resting = false;
    this.reason = this.message = "";
    this.listener.state("connecting", this.buffer.point ? "reconnecting …" : "connecting …");
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.timer = setTimeout(() => this.lost(socket, 1006), PATIENCE); // a half-open connection never says that it is dead
    socket.onopen = () => socket.send(JSON.stringify(this.buffer.start(this.token)));
    socket.onmessage = (event) => socket === this.socket && this.receive(JSON.parse(event.data));
    socket.onclose = (event) => this.lost(socket, event.code);
  }

  /** Connect anew at once and go on, because `start` asks for something else now. */
  again() {
    if (this.closed || this.resting) return;
    const socket = this.socket;
    this.socket = null;
    this.up = false;
    this.calm();
    socket?.close(1000);
    this.connect();
  }

  /** Treat the connection as lost, whatever the network thinks of it. */
  drop() {
    if (this.socket) this.lost(this.socket, 1006);
  }

  /** The server lives. */
  calm() {
    clearTimeout(this.watch);
    this.watch = 0;
  }

  /** @param {any} message */
  receive(message) {
    this.calm();
    if (message.type === "ready") this.ready(message);
    else if (message.type === "step") {
      if (this.buffer.step(message)) this.listener.step(message, this.buffer.generation);
    } else if (message.type === "sentence") {
      this.buffer.finish(message.resume);
      this.listener.sentence(message, this.buffer.generation);
    } else if (message.type === "tail") this.listener.tail?.(message, this.buffer.generation);
    else if (message.type === "reconnect") {
      this.after = message.after ?? 1;
      this.listener.state("waiting", "the server is restarting …");
    } else if (message.type === "error") this.fault(message);
  }

  /** @param {any} message */
  ready(message) {
    clearTimeout(this.timer);
    const again = this.buffer.point !== null;
    this.buffer.ready(message.resume);
    this.idle = message.limits.idle ?? 0;
    this.attempt = 0;
    this.up = true;
    this.send(this.buffer.replay());
    this.listener.state("ready", again ? "connected again, nothing lost" : "connected");
  }

  /** @param {{code: string, message: string, fatal?: boolean}} error */
  fault(error) {
    if (error.fatal) [this.reason, this.message] = [error.code, error.message];
    else this.listener.complaint(error.code, error.message);
  }

  /** @param {WebSocket} socket @param {number} code */
  lost(socket, code) {
    if (socket !== this.socket || this.closed) return;
    clearTimeout(this.timer);
    this.calm();
    this.socket = null;
    this.up = false;
    socket.close();
    const what = meaning(code, this.reason);
    if (what === "stop") return this.refused(this.message || `the server closed the connection (${code})`);
    if (what === "done" || (what === "rest" && !this.crossed())) return this.rest();
    if (what === "anew") {
      this.buffer.anew();
      this.listener.anew();
    }
    this.retry(what === "wait" ? this.message : "");
  }

  /** Whether what was sent last crossed with the server's hanging up: the silence it complains of began before that. */
  crossed() {
    return performance.now() - this.spoke < (this.idle * 1000) / 2;
  }

  /** @param {string} why */
  refused(why) {
    this.closed = true;
    this.listener.state("refused", why);
  }

  rest() {
    this.resting = true;
    this.listener.state("resting", "paused until there is more text");
  }

  /** @param {string} why */
  retry(why) {
    const wait = Math.max(this.after, pause(this.attempt, Math.random()));
    this.attempt += 1;
    this.after = 0;
    const inWords = wait < 1.5 ? "a moment" : `${Math.round(wait)} s`;
    this.listener.state("waiting", `${why || "connection lost"}; trying again in ${inWords}`);
    this.timer = setTimeout(() => this.connect(), wait * 1000);
  }

  /** Say once more how things are, to a listener that was away. */
  tell() {
    if (this.up) this.listener.state("ready", "connected");
    else if (this.resting) this.rest();
  }

  /** The network came back: do not sit out the pause. */
  hurry() {
    if (!this.socket && !this.resting && !this.closed) this.connect();
  }
}
