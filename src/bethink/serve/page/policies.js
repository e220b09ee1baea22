/** The policies as people meet them: names, sliders, and the one-line text form `pe:k=3,rho=0.24,r=2`. */

/**
 * @typedef {{name: string, label: string, hint: string, ends: [string, string], min: number, max: number, step: number, fallback: number}} Setting
 * @typedef {{name: string, title: string, about: string, settings: Setting[]}} PolicyKind
 * @typedef {{name: string, values: Record<string, number>}} Policy
 */

/** @type {Omit<Setting, "hint">} */
const WAIT = { name: "k", label: "Latency k", ends: ["sooner", "later"], min: 1, max: 12, step: 1, fallback: 3 };

/** @type {PolicyKind[]} */
export const KINDS = [
  {
    name: "pe",
    title: "Post-evaluation",
    about: "Speaks only words that visibly translate something it has heard.",
    settings: [
      { ...WAIT, hint: "It listens to this many word pieces before its first." },
      { name: "rho", label: "Evidence ρ", hint: "A source word must become this much more translated.", ends: ["bolder", "surer"], min: 0, max: 0.6, step: 0.02, fallback: 0.24 },
      { name: "r", label: "Patience r", hint: "A word is put off at most this often.", ends: ["hasty", "patient"], min: 0, max: 12, step: 1, fallback: 2 },
    ],
  },
  {
    name: "pe-flip",
    title: "Post-evaluation, flip rule",
    about: "A source word must turn from untranslated to translated; never later than wait-k.",
    settings: [
      { ...WAIT, hint: "It never falls further behind than this many word pieces." },
      { name: "tau", label: "Evidence τ", hint: "How clearly a word must turn.", ends: ["bolder", "surer"], min: 0, max: 0.6, step: 0.02, fallback: 0.12 },
    ],
  },
  {
    name: "weigh",
    title: "Weighing",
    about: "Keeps pace with the speaker; speaks early only when it is sure.",
    settings: [
      { ...WAIT, fallback: 2, hint: "It stays at least this many word pieces behind." },
      { name: "rho", label: "Sureness ρ", hint: "How sure it must be to speak at once.", ends: ["bolder", "surer"], min: 0, max: 1, step: 0.02, fallback: 0.9 },
      { name: "r", label: "Patience r", hint: "A word waits for at most this many more pieces.", ends: ["hasty", "patient"], min: 1, max: 12, step: 1, fallback: 4 },
    ],
  },
  {
    name: "adaptive",
    title: "Adaptive wait-k",
    about: "Speaks when the model is sure enough for its present lag.",
    settings: [
      { name: "k_max", label: "Latency k", hint: "At this lag it speaks in any case.", ends: ["sooner", "later"], min: 2, max: 15, step: 1, fallback: 10 },
      { name: "rho_1", label: "Sureness ρ", hint: "How sure it must be when it has just caught up.", ends: ["bolder", "surer"], min: 0, max: 1, step: 0.02, fallback: 0.6 },
    ],
  },
  {
    name: "wait-k",
    title: "Wait-k",
    about: "Always stays the same number of word pieces behind.",
    settings: [{ ...WAIT, hint: "The number of word pieces it stays behind." }],
  },
  { name: "offline", title: "Whole sentence", about: "Hears the sentence to its end, then speaks.", settings: [] },
];

/** @param {string} name @returns {PolicyKind} */
export function kindOf(name) {
  return KINDS.find((kind) => kind.name === name) ?? { name, title: name, about: "", settings: [] };
}

/** @param {string} spec @returns {Policy} */
export function parse(spec) {
  const [name, settings = ""] = spec.trim().split(/:(.*)/s);
  const order = kindOf(name).settings.map((setting) => setting.name);
  /** @type {Record<string, number>} */
  const values = {};
  settings.split(",").filter(Boolean).forEach((part, place) => {
    const [key, value] = part.includes("=") ? part.split("=") : [order[place] ?? part, part];
    values[key.trim()] = Number(value);
  });
  return { name, values };
}

/** @param {Policy} policy @returns {string} */
export function spell({ name, values }) {
  const settings = Object.entries(values).map(([key, value]) => `${key}=${value}`).join(",");
  return settings ? `${name}:${settings}` : name;
}

/** The policy of that kind with every slider at its default, or as in `like` where that is of the same kind.
 * @param {string} name @param {Policy} like @returns {Policy} */
export function start(name, like) {
  const defaults = Object.fromEntries(kindOf(name).settings.map((setting) => [setting.name, setting.fallback]));
  return { name, values: like.name === name ? { ...defaults, ...like.values } : defaults };
}
