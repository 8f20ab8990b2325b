"""The page of `dssm demo`: it searches in the browser, with the scores of a maxsim model.

`words.js` splits texts as `dssm_tf.text` does, `maxsim.js` computes the score of
`dssm_tf.runtime.maxsim`, and `page.js` shows both. May import reports, runtime, text and common.
"""
