//! "Did you mean": the nearest of the names that would have been right.

use crate::limits::MAX_NEAR_NAME_BYTES;

/// The lowest similarity at which a name is offered.
const LIKENESS: f64 = 0.8;

/// The shortest name of which one slip (a letter too many, too few, wrong, or two in the wrong order) is still recognised:
/// of two letters, one is half the name.
const MIN_SLIP_CHARS: usize = 3;

pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NEAR_NAME_BYTES {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (likeness(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn likeness(name: &str, candidate: &str) -> f64 {
    let likeness = strsim::jaro_winkler(name, candidate);
    let is_slip = name.chars().count() >= MIN_SLIP_CHARS && strsim::osa_distance(name, candidate) == 1;
    // Two letters of three in the wrong order are little alike by that measure.
    if is_slip { likeness.max(LIKENESS) } else { likeness }
}

/// The nearest name as a question in brackets, or nothing.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map(|found| format!(" (did you mean `{found}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_name_and_a_stranger_finds_none() {
        assert_eq!(nearest("ouput", ["output", "stream"]), Some("output"));
        assert_eq!(nearest("gte", ["get", "session", "set"]), Some("get"));
        assert_eq!(nearest("on", ["or", "in"]), None);
        assert_eq!(nearest("zzz", ["output", "stream"]), None);
    }
}
