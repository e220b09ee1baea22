/** The talks that come with the page, each offered only to a model of its language. */

/** @typedef {{name: string, about?: {source?: string, target?: string, toy?: boolean, description?: string}, policy: string,
 *   recommended: string, policies: import("./policy.js").Policy[], reasons: Record<string, string>}} Model */

/** @type {{file: string, title: string, language: string}[]} */
const SAMPLES = [
  { file: "toy-talk.txt", title: "A talk in the toy language", language: "toy" },
  { file: "de-town.txt", title: "Wie unsere Stadt aussehen soll", language: "de" },
  { file: "de-bread.txt", title: "Wie das Brot entstand", language: "de" },
];

/** The language a model listens to: `toy`, a code such as `de`, or nothing where its makers did not say.
 * @param {Model} model @returns {string} */
export function sourceLanguage(model) {
  return model.about?.toy ? "toy" : code(model.about?.source ?? model.name.match(/^([a-z]{2})-[a-z]{2}\b/)?.[1]);
}

/** @param {Model} model @returns {string} */
export function targetLanguage(model) {
  return model.about?.toy ? "" : code(model.about?.target ?? model.name.match(/^[a-z]{2}-([a-z]{2})\b/)?.[1]);
}

/** The shortest code of a language named in any of the usual ways: `de` for german, deu, deu_Latn and de.
 * @param {string | undefined} language @returns {string} */
function code(language) {
  const names = /** @type {Record<string, string>} */ ({ german: "de", english: "en", vietnamese: "vi", french: "fr", spanish: "es" });
  const known = (language ?? "").trim().toLowerCase().replaceAll("_", "-");
  const tag = names[known] ?? known.match(/^[a-z]{2,3}(-[a-z]{4})?(-([a-z]{2}|[0-9]{3}))?(?![a-z0-9])/)?.[0];
  if (!tag) return "";
  const { language: main, script, region } = new Intl.Locale(tag);
  const usual = new Intl.Locale(main).maximize().script;
  return [main, script === usual ? "" : script, region].filter(Boolean).join("-");
}

/** A language's name in English, for a code.
 * @param {string} language @returns {string} */
export function languageName(language) {
  if (language === "toy") return "toy language";
  return language ? (new Intl.DisplayNames(["en"], { type: "language" }).of(language) ?? language) : "";
}

/** @param {Model} model */
export function samplesFor(model) {
  return SAMPLES.filter((sample) => sample.language === sourceLanguage(model).split("-")[0]);
}

/** @param {string} file @returns {Promise<string>} */
export async function load(file) {
  const response = await fetch(new URL(`samples/${file}`, import.meta.url));
  if (!response.ok) throw new Error(`the talk ${file} could not be loaded (${response.status})`);
  return response.text();
}
