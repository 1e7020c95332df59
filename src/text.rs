//! Small things that every message to a person needs.

/// The word most like `name`, when one is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR_ENOUGH: f64 = 0.75;
    words
        .into_iter()
        .map(|word| (strsim::jaro_winkler(&name.to_lowercase(), &word.to_lowercase()), word))
        .filter(|(likeness, _)| *likeness >= NEAR_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}
