/** The knobs: which policy, and a slider for each of its settings; a change holds from the next sentence on. */

import { kindOf, parse, spell, start } from "./policies.js";
import { element } from "./rows.js";

/** @typedef {import("./policies.js").Setting} Setting */

const SETTLE = 250; // ms after the last movement of a slider

export class Knobs {
  /** @param {HTMLElement} place @param {(policy: string) => void} changed */
  constructor(place, changed) {
    this.place = place;
    this.changed = changed;
    this.policy = parse("offline");
    this.recommended = this.policy;
    this.timer = 0;
  }

  /** @param {string} policy @param {string[]} possible names of policies the model can serve */
  show(policy, possible) {
    this.recommended = parse(policy);
    this.policy = start(this.recommended.name, this.recommended);
    const select = /** @type {HTMLSelectElement} */ (element("select"));
    select.id = "policy";
    for (const name of possible) select.add(new Option(kindOf(name).title, name, false, name === this.policy.name));
    select.addEventListener("change", () => this.choose(select.value));
    this.sliders = element("div", "sliders");
    this.about = element("p", "hint");
    this.about.id = "policy-about";
    select.setAttribute("aria-describedby", this.about.id);
    const box = element("div", "knob");
    box.append(label("policy", "Policy"), select);
    this.place.replaceChildren(box, this.sliders, this.about);
    this.draw();
  }

  /** @param {string} name */
  choose(name) {
    this.policy = start(name, this.recommended);
    this.draw();
    this.tell();
  }

  draw() {
    const { settings, about } = kindOf(this.policy.name);
    if (this.about) this.about.textContent = about;
    this.sliders?.replaceChildren(...settings.map((setting) => this.slider(setting)));
  }

  /** @param {Setting} setting @returns {HTMLElement} */
  slider(setting) {
    const box = element("div", "knob");
    const line = element("div", "knob-line");
    const input = /** @type {HTMLInputElement} */ (element("input"));
    const value = element("output", "", String(this.policy.values[setting.name]));
    Object.assign(input, { type: "range", id: `knob-${setting.name}`, min: setting.min, max: Math.max(setting.max, this.policy.values[setting.name]), step: setting.step });
    input.value = String(this.policy.values[setting.name]);
    value.setAttribute("for", input.id);
    box.title = setting.hint;
    input.addEventListener("input", () => {
      this.policy.values[setting.name] = Number(input.value);
      value.textContent = input.value;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.tell(), SETTLE);
    });
    input.addEventListener("change", () => this.tell()); // let go of
    line.append(label(input.id, setting.label), value);
    const ends = element("div", "knob-line ends");
    ends.setAttribute("aria-hidden", "true");
    ends.append(...setting.ends.map((text) => element("span", "", text)));
    box.append(line, input, ends);
    return box;
  }

  tell() {
    clearTimeout(this.timer);
    this.changed(spell(this.policy));
  }
}

/** @param {string} target @param {string} text @returns {HTMLElement} */
function label(target, text) {
  const made = /** @type {HTMLLabelElement} */ (element("label", "", text));
  made.htmlFor = target;
  return made;
}
