/** Taking the transcript along: the clipboard and downloads. */

/** @param {string} text @returns {Promise<boolean>} whether it worked */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByHand(text); // without a secure context there is no clipboard interface
  }
}

/** @param {string} text @returns {boolean} */
function copyByHand(text) {
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "hidden";
  document.body.append(box);
  box.select();
  const worked = document.execCommand("copy");
  box.remove();
  return worked;
}

/** @param {string} name @param {string} type @param {string} text */
export function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
