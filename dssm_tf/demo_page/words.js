"use strict";
// Splits texts into words and letter n-grams, by the rules of dssm_tf/text: the same table of
// characters, the same order of steps. All lengths count code points, as Python does.

/** The code points from `first` to `last`, inclusive, in steps; all are hexadecimal numbers. */
function codePoints(first, last, step) {
  const codes = [];
  for (let code = parseInt(first, 16); code <= parseInt(last, 16); code += parseInt(step, 16)) codes.push(code);
  return codes;
}

/** The same code points as a part of a character class of a regular expression. */
function characterClass(first, last, step) {
  if (step === "1") return `\\u{${first}}-\\u{${last}}`;
  return codePoints(first, last, step).map((code) => `\\u{${code.toString(16)}}`).join("");
}

/** Splits texts into words, and words into letter n-grams. */
class Words {
  /**
   * @param {object} rules `keep_accents`, `max_words`, `max_letters` and `letter_ngrams`.
   * @param {string} table the content of dssm_tf/text/characters.tsv.
   */
  constructor(rules, table) {
    this.rules = rules;
    const rows = table.trim().split("\n").slice(1).map((row) => row.split("\t"));
    this.characters = new Map();
    this.voiced = new Map();
    const scripts = new Map();
    for (const [first, last, step, rule, value] of rows) {
      if (rule === "letter" || rule === "mark") {
        if (!scripts.has(value)) scripts.set(value, { letter: "", mark: "" });
        scripts.get(value)[rule] += characterClass(first, last, step);
        continue;
      }
      for (const code of codePoints(first, last, step)) {
        const mapped = String.fromCodePoint(code + (Number(value) || 0));
        if (rule === "lower") {
          // Accent rules come first in the table: a capital maps as its small letter does.
          this.characters.set(code, this.characters.get(mapped.codePointAt(0)) ?? mapped);
        } else if (rule === "width") this.characters.set(code, mapped);
        else if (rule === "separator") this.characters.set(code, " ");
        else if (rule === "voiced") this.voiced.set(String.fromCodePoint(code, 0x3099), mapped);
        else if (rule === "semivoiced") this.voiced.set(String.fromCodePoint(code, 0x309a), mapped);
        else if (rule === "deleted" || !rules.keep_accents) this.characters.set(code, value || "");
      }
    }
    const groups = [...scripts.values()];
    const [letters, marks] = ["letter", "mark"].map((kind) => groups.map((group) => group[kind]).join(""));
    this.unspacedRuns = new RegExp(groups.map(({ letter, mark }) => `[${letter}${mark}]+`).join("|"), "gu");
    this.unspacedCharacter = new RegExp(`[${letters}][${marks}]*|[${marks}]+`, "gu");
  }

  /** The words of a text, in order. */
  of(text) {
    const mapped = Array.from(text, (letter) => this.characters.get(letter.codePointAt(0)) ?? letter).join("");
    const spaced = this.compose(mapped).replace(this.unspacedRuns, (run) => this.pairsOf(run));
    const words = spaced.split(" ").filter(Boolean).slice(0, this.rules.max_words);
    return words.map((word) => [...word].slice(0, this.rules.max_letters).join(""));
  }

  /** Composes voiced kana and Hangul syllables, see dssm_tf/text/characters.py. */
  compose(text) {
    return text.replace(
      /[\u3040-\u30ff][\u3099\u309a]|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?|[\uac00-\ud7a3][\u11a8-\u11c2]/g,
      (match) => {
        if (/[\u3099\u309a]/.test(match)) return this.voiced.get(match) ?? match;
        const [first, vowel, last] = [...match].map((letter) => letter.charCodeAt(0));
        if (first >= 0xac00) {
          return (first - 0xac00) % 28 ? match : String.fromCharCode(first + vowel - 0x11a7);
        }
        const syllable = ((first - 0x1100) * 21 + vowel - 0x1161) * 28 + (last ? last - 0x11a7 : 0);
        return String.fromCharCode(0xac00 + syllable);
      },
    );
  }

  /** The overlapping pairs of characters of a run without spaces, with spaces around them. */
  pairsOf(run) {
    const letters = run.match(this.unspacedCharacter);
    const pairs = letters.slice(1).map((letter, index) => letters[index] + letter);
    return ` ${(pairs.length ? pairs : letters).join(" ")} `;
  }

  /** The letter n-grams of a word, in order and with repetition, see dssm_tf/text/letter_ngrams.py. */
  ngrams(word) {
    const letters = ["#", ...word, "#"];
    const slices = (size) => letters.slice(size - 1).map((_, start) => letters.slice(start, start + size));
    const sorted = (slice) => slice.sort((x, y) => x.codePointAt(0) - y.codePointAt(0));
    const kinds = {
      pairs: () => slices(2).map((slice) => slice.join("")),
      trigrams: () => slices(3).map((slice) => slice.join("")),
      sorted_trigrams: () => slices(3).map((slice) => `~${sorted(slice).join("")}`),
    };
    return this.rules.letter_ngrams.flatMap((kind) => kinds[kind]());
  }
}
