/** The policy panel: which policy, and a control for each of its settings, as the server describes them in /v1/models. */

import { element } from "./dom.js";

/**
 * @typedef {{name: string, type: "int" | "float" | "str", default: number | string, label: string, hint: string, least: number | null,
 *   most: number | null, slider: [number, number, number] | null, ends: [string, string] | null, choices: string[]}} Setting
 * @typedef {{name: string, title: string, about: string, spec: string, settings: Setting[]}} Policy
 */

const SETTLE = 250; // ms after the last movement of a slider

/** The policy's text form: its `spec` with the values filled in. Pure.
 * @param {Policy} policy @param {Record<string, number | string>} values @returns {string} */
export function spell(policy, values) {
  return policy.spec.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name]));
}

export class PolicyPanel {
  /** @param {HTMLElement} place @param {(policy: string) => void} changed */
  constructor(place, changed) {
    this.place = place;
    this.changed = changed;
    /** @type {Policy[]} */
    this.policies = [];
    /** @type {Record<string, number | string>} */
    this.values = {};
    this.timer = 0;
  }

  /** @param {Policy[]} policies @param {string} name of the one in force */
  show(policies, name) {
    this.policies = policies;
    const select = /** @type {HTMLSelectElement} */ (element("select"));
    select.id = "policy";
    for (const { title, name: value } of policies) select.add(new Option(title, value, false, value === name));
    select.addEventListener("change", () => {
      this.draw(select.selectedIndex);
      this.tell();
    });
    this.settings = element("div", "sliders");
    this.about = element("p", "hint");
    this.about.id = "policy-about";
    select.setAttribute("aria-describedby", this.about.id);
    const box = element("div", "setting");
    box.append(label("policy", "Policy"), select);
    this.place.replaceChildren(box, this.settings, this.about);
    this.draw(select.selectedIndex);
  }

  /** @param {number} at of the policy chosen */
  draw(at) {
    this.policy = this.policies[at];
    this.values = Object.fromEntries(this.policy.settings.map((setting) => [setting.name, setting.default]));
    if (this.about) this.about.textContent = this.policy.about;
    this.settings?.replaceChildren(...this.policy.settings.map((setting) => this.control(setting)));
  }

  /** @param {Setting} setting @returns {HTMLElement} */
  control(setting) {
    const input = made(setting);
    const line = element("div", "setting-line");
    line.append(label(input.id, setting.label));
    const box = element("div", "setting");
    box.title = setting.hint;
    box.append(line, input);
    if (setting.slider) line.append(element("output", "", input.dataset.value ?? input.value));
    if (setting.slider && setting.ends) {
      const ends = element("div", "setting-line ends");
      ends.setAttribute("aria-hidden", "true");
      ends.append(...setting.ends.map((text) => element("span", "", text)));
      box.append(ends);
    }
    input.addEventListener("input", () => {
      this.values[setting.name] = setting.type === "str" ? input.value : Number(input.value);
      if (setting.slider) /** @type {HTMLElement} */ (line.lastElementChild).textContent = input.value;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.tell(), SETTLE);
    });
    input.addEventListener("change", () => this.tell()); // let go of
    return box;
  }

  tell() {
    clearTimeout(this.timer);
    if (this.policy) this.changed(spell(this.policy, this.values));
  }
}

/** @param {Setting} setting @returns {HTMLInputElement | HTMLSelectElement} a slider, a list of choices, a number or a text */
function made({ name, type, slider, choices, least, most, default: value }) {
  const input = /** @type {HTMLInputElement | HTMLSelectElement} */ (element(choices.length ? "select" : "input"));
  input.id = `setting-${name}`;
  if (input instanceof HTMLSelectElement) for (const choice of choices) input.add(new Option(choice, choice));
  else if (slider) {
    const [low, high, step] = slider;
    Object.assign(input, { type: "range", min: Math.min(low, Number(value)), max: Math.max(high, Number(value)), step });
    input.dataset.value = String(value); // a slider shows the nearest of its steps
  } else if (type === "str") input.type = "text";
  else Object.assign(input, { type: "number", min: least ?? "", max: most ?? "", step: type === "int" ? 1 : "any" });
  input.value = String(value);
  return input;
}

/** @param {string} target @param {string} text @returns {HTMLElement} */
function label(target, text) {
  const made = /** @type {HTMLLabelElement} */ (element("label", "", text));
  made.htmlFor = target;
  return made;
}
