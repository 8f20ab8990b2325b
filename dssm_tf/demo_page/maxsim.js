"use strict";
// The score maxsim of a query and a title, as dssm_tf/runtime/maxsim.py defines it (docs/maxsim.md).

const QUERY = 0;
const TITLE = 1;
const IDF_DIVISOR = 5;

const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** Decodes an array of a type such as Int16Array from its bytes in base64. */
function decodeArray(text, Type) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return new Type(bytes.buffer);
}

function dot(first, second) {
  let sum = 0;
  for (let i = 0; i < first.length; i++) sum += first[i] * second[i];
  return sum;
}

/** The sum of vectors of a dimension; zeros without vectors. */
function sumOf(vectors, dimension) {
  const sum = new Float64Array(dimension);
  for (const vector of vectors) {
    for (let i = 0; i < sum.length; i++) sum[i] += vector[i];
  }
  return sum;
}

/** The Euclidean norm of a vector; 1 for a vector of zeros, so that one can divide by it. */
function lengthOf(vector) {
  return Math.sqrt(dot(vector, vector)) || 1;
}

/**
 * Rounds parts to a number of digits, so that they add up to their rounded total. Rounds up those
 * with the largest remainders, as dssm_tf/common/rounding.py does.
 */
function roundedParts(parts, total, digits) {
  const scale = 10 ** digits;
  const units = parts.map((part) => Math.floor(part * scale));
  const missing = Math.round(total * scale) - units.reduce((sum, unit) => sum + unit, 0);
  const remainders = parts.map((part, index) => [part * scale - units[index], index]);
  remainders.sort(([x], [y]) => (missing > 0 ? y - x : x - y));
  for (const [, index] of remainders.slice(0, Math.abs(missing))) units[index] += Math.sign(missing);
  return units.map((unit) => unit / scale);
}

/** Computes the vectors and weights of words, as dssm_tf/runtime/hashed_words.py defines them. */
class HashedWords {
  /**
   * @param {object} arrays `dimension`, `rows`, `scales` and `importance`, see `model_data`.
   * @param {function} idsOf returns the ids of a word.
   * @param {function} idfOf returns the idf of a word.
   */
  constructor({ dimension, rows, scales, importance }, idsOf, idfOf) {
    this.dimension = dimension;
    this.rows = decodeArray(rows, Int16Array);
    this.scales = decodeArray(scales, Float32Array);
    this.importance = decodeArray(importance, Float32Array);
    this.idsOf = idsOf;
    this.idfOf = idfOf;
    this.cachedFeatures = new Map(); // by word
  }

  /** The unit vector of a word, and its weights in queries and titles. */
  features(word) {
    if (!this.cachedFeatures.has(word)) this.cachedFeatures.set(word, this.computeFeatures(word));
    return this.cachedFeatures.get(word);
  }

  computeFeatures(word) {
    const { dimension } = this;
    const ids = this.idsOf(word);
    const sum = new Float64Array(dimension);
    const importance = [0, 0];
    for (const id of ids) {
      for (let i = 0; i < dimension; i++) sum[i] += this.rows[id * dimension + i] * this.scales[id];
      for (const side of [QUERY, TITLE]) importance[side] += this.importance[2 * id + side] / ids.length;
    }
    const length = lengthOf(sum);
    const idf = this.idfOf(word);
    return {
      vector: sum.map((x) => x / length),
      weights: importance.map((mean) => softplus(idf / IDF_DIVISOR + mean)),
    };
  }
}

/** A model and the titles that it ranks. */
class MaxSim {
  /**
   * @param {object} data the result of `model_data` in dssm_tf/demo_page/model_data.py.
   */
  constructor(data) {
    this.data = data;
    this.words = new Words(data.rules, data.characters);
    this.ids = new Map(data.ngrams.map((ngram, index) => [ngram, index]));
    this.wordTitles = new Map(Object.entries(data.word_titles)); // number of titles by word
    this.pairTitles = new Map(Object.entries(data.pair_titles)); // number of titles by known pair
    this.cachedSimilarWords = new Map(); // by word
    const hashedWords = (arrays) => new HashedWords(arrays, (word) => this.idsOf(word), (word) => this.idfOf(word));
    this.wordVectors = hashedWords(data.word_vectors);
    this.textVectors = data.text_vectors && hashedWords(data.text_vectors);
    this.titles = data.titles.map((title, index) => ({ ...this.read(title, TITLE), prior: data.priors[index] }));
    this.titleWords = [...new Set(this.titles.flatMap(({ words }) => words))];
  }

  /** The ids of the letter n-grams of a word, with repetition, and of the word itself, if it has one. */
  idsOf(word) {
    const ngrams = this.words.ngrams(word);
    if ([...word].length > 1) ngrams.push(`#${word}#`);
    return ngrams.map((ngram) => this.ids.get(ngram)).filter((id) => id !== undefined);
  }

  idfOf(word) {
    return Math.log(this.data.title_count / (this.wordTitles.get(word) ?? 0.5));
  }

  /**
   * The distinct words and pairs of a text with their weights, the number by which a weight is
   * multiplied to become a part of the score, and the vector of the text, empty without text vectors.
   */
  read(text, side) {
    const allWords = this.words.of(text);
    const words = [...new Set(allWords)];
    const neighbors = new Set(allWords.slice(1).map((word, index) => `${allWords[index]} ${word}`));
    const pairs = [...neighbors].filter((pair) => this.pairTitles.has(pair));
    const weights = words.map((word) => this.wordVectors.features(word).weights[side]);
    const pairWeights = pairs.map((pair) => {
      const idf = Math.log(this.data.title_count / this.pairTitles.get(pair));
      return softplus(idf / IDF_DIVISOR + this.data.pair_bias[side]);
    });
    const total = [...weights, ...pairWeights].reduce((sum, weight) => sum + weight, 0);
    const scale = total && this.data.side_weights[side] / total;
    const textVector = sumOf(this.textParts(words, side), this.textVectors?.dimension ?? 0);
    return { text, words, weights, pairs, pairWeights, scale, textVector };
  }

  /** For each distinct word of a text, its part of the text's unit vector; empty without text vectors. */
  textParts(words, side) {
    if (!this.textVectors) return [];
    const parts = words.map((word) => {
      const { vector, weights } = this.textVectors.features(word);
      return vector.map((x) => x * weights[side]);
    });
    const length = lengthOf(sumOf(parts, this.textVectors.dimension));
    return parts.map((part) => part.map((x) => x / length));
  }

  /** The similarities of a word with words of titles, by these words; similarities of 0 are left out. */
  similarWords(word) {
    if (!this.cachedSimilarWords.has(word)) this.cachedSimilarWords.set(word, this.computeSimilarWords(word));
    return this.cachedSimilarWords.get(word);
  }

  computeSimilarWords(word) {
    const { threshold } = this.data;
    const { vector } = this.wordVectors.features(word);
    const similarities = new Map();
    for (const other of this.titleWords) {
      const cosine = dot(vector, this.wordVectors.features(other).vector);
      if (cosine > threshold) similarities.set(other, Math.min(1, (cosine - threshold) / (1 - threshold)));
    }
    return similarities;
  }

  /**
   * Ranks all titles, the best first. Titles with equal scores stay in the order of the data.
   *
   * @returns {object[]} for each title, the result of `match`.
   */
  rank(text) {
    const query = this.read(text, QUERY);
    const similar = query.words.map((word) => this.similarWords(word));
    const hits = this.titles.map((title) => this.match(query, similar, title));
    return hits.sort((x, y) => Math.fround(y.score) - Math.fround(x.score));
  }

  /**
   * The score of a title and its parts, which add up to it: each word of the query and of the title
   * with its most similar word of the other text, the pairs of both texts, the cosine of the text
   * vectors times its factor, and the prior. `adds` is the number that a word or a pair adds to the score.
   * `cosineWords` returns what each word of the query adds to the cosine's part; it is a function,
   * because only displayed titles need it.
   *
   * @param {object} query the result of `read`.
   * @param {Map[]} similar for each word of the query, the result of `similarWords`.
   * @param {object} title the result of `read`, with `prior`.
   */
  match(query, similar, title) {
    const queryWords = query.words.map((word) => ({ word, match: null, similarity: 0, adds: 0 }));
    const titleWords = title.words.map((word) => ({ word, match: null, similarity: 0, adds: 0 }));
    for (const [row, queryWord] of queryWords.entries()) {
      for (const titleWord of titleWords) {
        const similarity = similar[row].get(titleWord.word) ?? 0;
        if (similarity > queryWord.similarity) Object.assign(queryWord, { match: titleWord.word, similarity });
        if (similarity > titleWord.similarity) Object.assign(titleWord, { match: queryWord.word, similarity });
      }
    }
    for (const [words, { scale, weights }] of [[queryWords, query], [titleWords, title]]) {
      words.forEach((word, index) => { word.adds = scale * weights[index] * word.similarity; });
    }
    const pairs = [];
    for (const [row, pair] of query.pairs.entries()) {
      const column = title.pairs.indexOf(pair);
      if (column < 0) continue;
      const adds = query.scale * query.pairWeights[row] + title.scale * title.pairWeights[column];
      pairs.push({ pair, adds });
    }
    const { text, prior } = title;
    const textCosine = this.data.text_cosine * dot(query.textVector, title.textVector);
    const cosineWords = () => this.cosineWords(query, title);
    const parts = [...queryWords, ...titleWords, ...pairs];
    const score = parts.reduce((sum, part) => sum + part.adds, textCosine + prior);
    return { title: text, score, prior, queryWords, titleWords, pairs, textCosine, cosineWords };
  }

  /** What each word of a query adds to the cosine's part of the score; empty without text vectors. */
  cosineWords(query, title) {
    return this.textParts(query.words, QUERY).map((part, row) => (
      { word: query.words[row], adds: this.data.text_cosine * dot(part, title.textVector) }
    ));
  }

  /** Whether a title is a good match, by the rule of dssm_tf/runtime/good_match.py. */
  isGood({ score, prior, queryWords, titleWords }) {
    const words = new Set(titleWords.map(({ word }) => word));
    return score - prior >= this.data.cutoff || queryWords.every(({ word }) => words.has(word));
  }
}
