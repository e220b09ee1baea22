/** The listeners' page: shows the words of a room as they are written. One file without modules, for phones of 2018 as well. */
"use strict";

(function () {
  const DOUBTFUL = 0.98; // stability below which words that were written early are marked
  const KEPT = 1500; // sentences on the page; all of them are copied
  const SILENCE = 40000; // ms: the server gives a sign of life every 15 s
  const COLOURS = ["auto", "light", "dark", "yellow", "sepia"];
  const $ = (id) => document.getElementById(id);
  const options = new URLSearchParams(location.search);
  const overlay = options.get("view") === "captions";
  const [room, token] = location.hash.slice(1).split(".");
  const api = `v1/rooms/${encodeURIComponent(room)}`;

  let source = null; // the EventSource
  let model = options.get("model") || "";
  let last = -1; // the number of the last event
  let attempt = 0;
  let timer = 0;
  let watch = 0;
  let frame = 0;
  let following = true;
  let place = 0; // where the text was scrolled to
  let sentences = []; // texts, in order
  let open = null; // {number, node} of the newest sentence
  let fading = 0;

  // the connection

  function query(more) {
    const parts = Object.assign({ token: token || "" }, more);
    return Object.keys(parts).map((name) => `${name}=${encodeURIComponent(parts[name])}`).join("&");
  }

  function connect() {
    clearTimeout(timer);
    if (source) source.close();
    source = new EventSource(`${api}/events?${query({ model, after: last })}`);
    source.onopen = () => {
      attempt = 0;
      alive();
      state("live", "live");
    };
    source.onmessage = (event) => {
      alive();
      take(Number(event.lastEventId), JSON.parse(event.data));
    };
    source.addEventListener("alive", alive);
    source.addEventListener("final", () => {
      alive();
      state("final", "the speaker has finished");
    });
    source.onerror = lost;
    alive();
  }

  /** The browser retries by itself with the last number, but not after an answer such as 502 from a proxy, and not for ever. */
  function lost() {
    if (source) source.close();
    source = null;
    clearTimeout(watch);
    const wait = Math.min(10000, 500 * Math.pow(2, attempt)) * (0.75 + Math.random() / 2);
    attempt += 1;
    state("waiting", "connection lost; trying again …");
    clearTimeout(timer);
    timer = setTimeout(attempt > 2 ? ask : connect, wait);
  }

  function alive() {
    clearTimeout(watch);
    watch = setTimeout(lost, SILENCE);
  }

  /** Which languages the room has, or that it has none any more. */
  function ask() {
    fetch(`${api}?${query({})}`).then((answer) => {
      if (answer.status === 404) return state("gone", "This room has ended, or the link is not complete.");
      if (!answer.ok) return lost();
      return answer.json().then(begin);
    }).catch(lost);
  }

  function begin(about) {
    $("name").textContent = about.room;
    document.title = `${about.room}: live translation`;
    const select = $("language");
    if (!select.options.length) {
      about.languages.forEach((one) => select.add(new Option(language(one.target) || one.model, one.model)));
      if (model) select.value = model;
      select.hidden = about.languages.length < 2;
    }
    const chosen = about.languages.filter((one) => one.model === model)[0] || about.languages[0];
    $("text").lang = $("spoken").lang = chosen.target;
    connect();
  }

  function language(code) {
    try {
      return new Intl.DisplayNames([code], { type: "language" }).of(code);
    } catch (error) {
      return code; // an old browser, or no code
    }
  }

  function state(name, text) {
    $("status").dataset.state = name;
    $("status").textContent = text;
  }

  // the text

  function take(number, event) {
    if (number <= last) return;
    last = number;
    if (!open || open.number !== event.sentence) start(event.sentence);
    const text = event.words.map((word) => word[1]).join("");
    sentences[sentences.length - 1] += text;
    event.words.forEach((word, at) => write(word[1], event.stability && event.stability[at]));
    if (event.correction) correct(` — correction: ${event.correction[1]}`);
    if (event.end) speak(sentences[sentences.length - 1]);
    $("empty").hidden = true;
    if (overlay) show();
    else frame = frame || requestAnimationFrame(follow);
  }

  /** Words that were written early and may be wrong are marked if the reader wants it. */
  function write(text, stability) {
    const doubtful = typeof stability === "number" && stability < DOUBTFUL;
    const before = open.node.lastChild;
    const plain = doubtful ? /^\s*/.exec(text)[0] : text;
    if (before && before.nodeType === Node.TEXT_NODE) before.data += plain;
    else open.node.appendChild(document.createTextNode(plain));
    if (!doubtful) return;
    const node = document.createElement("span");
    node.className = "doubt";
    node.textContent = text.trim();
    open.node.appendChild(node);
  }

  /** What puts the sentence right follows it in another style. */
  function correct(text) {
    const node = document.createElement("span");
    node.className = "correction";
    node.textContent = text;
    open.node.appendChild(node);
    sentences[sentences.length - 1] += text;
  }

  function start(number) {
    const box = $("text");
    if (open) {
      if (box.querySelector(".last")) box.querySelector(".last").classList.remove("last");
      open.node.className = "past last";
    }
    open = { number, node: document.createElement("p") };
    box.appendChild(open.node);
    sentences.push("");
    while (box.childNodes.length > (overlay ? 4 : KEPT)) box.removeChild(box.firstChild);
  }

  /** Screen readers get whole sentences: single words would interrupt each other. */
  function speak(text) {
    const box = $("spoken");
    const line = document.createElement("p");
    line.textContent = text;
    box.appendChild(line);
    while (box.childNodes.length > 3) box.removeChild(box.firstChild);
  }

  function follow() {
    frame = 0;
    const box = $("scroll");
    if (following) box.scrollTop = Math.max(0, bottom() - box.clientHeight * 0.75);
    place = box.scrollTop;
    $("now").hidden = following;
  }

  function bottom() {
    return $("text").offsetTop + $("text").offsetHeight - $("scroll").offsetTop;
  }

  /** In the caption view, text goes when nothing new has come for a while. */
  function show() {
    $("text").hidden = false;
    clearTimeout(fading);
    fading = setTimeout(() => void ($("text").hidden = true), 1000 * number("hold", 12, 1, 3600));
  }

  // what the reader sets; kept on this device

  function number(name, usual, least, most) {
    const value = Number(options.get(name));
    return options.get(name) && value >= least && value <= most ? value : usual;
  }

  function remember(name, value) {
    try {
      if (value !== undefined) localStorage.setItem(`bethink-${name}`, value);
      return localStorage.getItem(`bethink-${name}`);
    } catch (error) {
      return null; // storage can be forbidden
    }
  }

  function size(factor) {
    const scale = Math.min(3, Math.max(0.6, (Number(remember("size")) || 1) * factor));
    remember("size", String(scale));
    document.documentElement.style.setProperty("--scale", scale);
    follow();
  }

  function colours(step) {
    const now = (Math.max(0, COLOURS.indexOf(remember("colours"))) + step) % COLOURS.length;
    remember("colours", COLOURS[now]);
    document.documentElement.dataset.colours = COLOURS[now];
  }

  function shortHistory(short) {
    remember("short", short ? "1" : "");
    $("text").className = short ? "short" : "";
    $("history").setAttribute("aria-pressed", String(!short));
    follow();
  }

  function doubts(marked) {
    remember("doubt", marked ? "1" : "");
    document.documentElement.classList[marked ? "add" : "remove"]("doubts");
    $("doubt").setAttribute("aria-pressed", String(marked));
  }

  function copy() {
    const box = document.createElement("textarea"); // works without HTTPS too
    box.value = sentences.map((text) => text.trim()).filter(Boolean).join("\n");
    document.body.appendChild(box);
    box.select();
    const worked = document.execCommand("copy");
    document.body.removeChild(box);
    $("copy").textContent = worked ? "Copied" : "Not allowed";
    setTimeout(() => void ($("copy").textContent = "Copy"), 2000);
  }

  function wire() {
    $("smaller").onclick = () => size(1 / 1.15);
    $("larger").onclick = () => size(1.15);
    $("colours").onclick = () => colours(1);
    $("history").onclick = () => shortHistory($("history").getAttribute("aria-pressed") === "true");
    $("doubt").onclick = () => doubts($("doubt").getAttribute("aria-pressed") !== "true");
    $("copy").onclick = copy;
    $("now").onclick = () => {
      following = true;
      follow();
    };
    $("scroll").onscroll = () => {
      const box = $("scroll");
      if (box.scrollTop + box.clientHeight > bottom() - 20) following = true;
      else if (box.scrollTop < place) following = false; // not if it is only that many words came at once
      place = box.scrollTop;
      $("now").hidden = following;
    };
    $("language").onchange = () => {
      model = $("language").value;
      last = -1;
      open = null;
      sentences = [];
      $("text").textContent = "";
      ask();
    };
    window.addEventListener("hashchange", () => location.reload());
    window.addEventListener("online", ask);
    window.addEventListener("resize", follow); // a phone that is turned
    document.addEventListener("visibilitychange", () => document.hidden || awake());
  }

  /** Keep the screen on, where the browser can. */
  function awake() {
    if (navigator.wakeLock) navigator.wakeLock.request("screen").catch(() => null);
  }

  function styleCaptions() {
    const root = document.documentElement;
    root.className = "captions";
    root.style.setProperty("--size", `${number("size", 48, 8, 400)}px`);
    root.style.setProperty("--lines", number("lines", 2, 1, 10));
    root.style.setProperty("--shade", number("shade", 75, 0, 100) / 100);
    if (/^[0-9a-fA-F]{3,6}$/.test(options.get("colour") || "")) root.style.setProperty("--colour", `#${options.get("colour")}`);
  }

  if (overlay) styleCaptions();
  else {
    size(1);
    colours(0);
    shortHistory(remember("short") === "1");
    doubts(remember("doubt") === "1");
    awake();
  }
  wire();
  if (room && token) ask();
  else state("gone", "This link is not complete: ask the speaker for the whole link, or scan the code again.");
})();
