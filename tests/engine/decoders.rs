//! The wire formats: what is decoded, what is a violation, and that no split of the message matters.

use std::time::{Duration, Instant};

use axon::engine::{MessageEnd, decoder};
use axon_runtime::{EngineEvent, Format};
use proptest::prelude::*;

use crate::support::{blocks, decode};

fn air(message: &str) -> Vec<String> {
    let whole = decode(Format::Air, [message]);
    check_splits(Format::Air, message, &whole);
    blocks(&whole)
}

fn fenced(message: &str) -> Vec<String> {
    let whole = decode(Format::Fenced, [message]);
    check_splits(Format::Fenced, message, &whole);
    blocks(&whole)
}

/// All events but for deltas, whole.
fn decided(events: &[EngineEvent]) -> Vec<EngineEvent> {
    events.iter().filter(|event| !matches!(event, EngineEvent::TextDelta { .. })).cloned().collect()
}

/// The deltas before each text concatenate to it, and there are no others.
fn check_deltas(events: &[EngineEvent]) {
    let mut said = String::new();
    for event in events {
        match event {
            EngineEvent::TextDelta { content } => {
                assert!(!content.is_empty());
                said.push_str(content);
            }
            EngineEvent::Text { content } => assert_eq!(*content, std::mem::take(&mut said)),
            _ => assert_eq!(said, "", "deltas without their text before {event:?} in {events:?}"),
        }
    }
    assert_eq!(said, "");
}

fn check_pieces<'a>(format: Format, pieces: impl IntoIterator<Item = &'a str>, whole: &[EngineEvent]) {
    let split = decode(format, pieces);
    check_deltas(&split);
    assert_eq!(decided(&split), decided(whole));
}

/// Each split in two, and the split into single characters, gives the same.
fn check_splits(format: Format, message: &str, whole: &[EngineEvent]) {
    check_deltas(whole);
    let boundaries: Vec<usize> = message.char_indices().map(|(at, _)| at).chain([message.len()]).collect();
    for &at in &boundaries {
        check_pieces(format, [&message[..at], &message[at..]], whole);
    }
    check_pieces(format, boundaries.windows(2).map(|pair| &message[pair[0]..pair[1]]), whole);
}

#[test]
fn a_message_of_air_is_a_sequence_of_blocks() {
    let message =
        "<thinking>hm, <text>no</text></thinking>\n<text>Hello.</text>\n<typescript>1 + 1</typescript>\n<done/>";
    assert_eq!(air(message), ["text:Hello.", "ts:1 + 1", "stop"]);
}

#[test]
fn tags_have_any_case_and_attributes() {
    assert_eq!(
        air("<TEXT lang=\"a>b\" x='<y>'>hi</Text ><TypeScript id=e1>f()</TYPESCRIPT\n><DONE />"),
        ["text:hi", "ts:f()", "stop"]
    );
    assert_eq!(air("<text it's>hi</text><done>"), ["text:hi", "stop"]);
    assert_eq!(air("<done></done>"), ["stop"]);
}

#[test]
fn a_text_loses_one_newline_at_each_end() {
    assert_eq!(air("<text>\n\n a\n b \n\n</text><done/>"), ["text:\n a\n b \n", "stop"]);
    assert_eq!(air("<text>\r\na\r\n</text><done/>"), ["text:a", "stop"]);
    assert_eq!(air("<text>\ra\r</text><done/>"), ["text:\ra\r", "stop"]);
    assert_eq!(air("<text>\n</text><text></text><text/><done/>"), ["stop"]);
}

#[test]
fn what_only_looks_like_a_close_tag_is_text() {
    let text = "a < b </ text> </texts> </text                  > </typescript> <done/> <";
    assert_eq!(air(&format!("<text>{text}</text><done/>")), [format!("text:{text}"), "stop".to_owned()]);
}

#[test]
fn blocks_behind_done_still_count_and_done_is_told_once() {
    assert_eq!(air("<done/><text>bye</text><done/>"), ["stop", "text:bye"]);
}

#[test]
fn violations_become_events() {
    let cases: &[(&str, &[&str])] = &[
        ("<text>half", &["text:half", "error:INCOMPLETE_BLOCK", "error:MISSING_DONE"]),
        ("<text>half\n</te", &["text:half\n</te", "error:INCOMPLETE_BLOCK", "error:MISSING_DONE"]),
        ("<text>half\n", &["text:half", "error:INCOMPLETE_BLOCK", "error:MISSING_DONE"]),
        ("<text>a</text><typescript>f(", &["text:a", "error:INCOMPLETE_BLOCK", "error:MISSING_DONE"]),
        ("<thinking>hm", &["error:INCOMPLETE_BLOCK", "error:MISSING_DONE"]),
        ("<text>a</text>", &["text:a", "error:MISSING_DONE"]),
        ("<typescript>1</typescript>", &["ts:1"]),
        ("Sure!\n<text>a</text> and so on <done/> more", &["error:STRAY_TEXT", "text:a", "stop"]),
        ("<text>a</text></text><done/>", &["text:a", "error:STRAY_TEXT", "stop"]),
        ("<done/>\n <don", &["stop", "error:STRAY_TEXT"]),
        ("<done", &["error:STRAY_TEXT", "error:MISSING_DONE"]),
        ("1 < 2 <> < /text>", &["error:STRAY_TEXT", "error:MISSING_DONE"]),
        ("<answer>42 <b>!</b></answer><text>a</text><done/>", &["error:UNKNOWN_BLOCK", "text:a", "stop"]),
        ("<answer>42<text>a</text>x<done/>", &["error:UNKNOWN_BLOCK", "text:a", "error:STRAY_TEXT", "stop"]),
        ("<br/><text>a</text><done/>", &["error:UNKNOWN_BLOCK", "text:a", "stop"]),
        ("<result for=\"e1\">x</result><done/>", &["error:UNKNOWN_BLOCK", "stop"]),
        ("", &["error:MISSING_DONE"]),
    ];
    for (message, expected) in cases {
        assert_eq!(air(message), *expected, "{message}");
    }
}

#[test]
fn a_violation_quotes_what_it_is_about() {
    let quoted = |message: &str| {
        decode(Format::Air, [message]).into_iter().find_map(|event| match event {
            EngineEvent::OutputError { excerpt, .. } => Some(excerpt),
            _ => None,
        })
    };
    assert_eq!(quoted("  Sure, here you go:  <done/>"), Some(Some("Sure, here you go:".to_owned())));
    assert_eq!(quoted("<Answer x=1>42</answer><done/>"), Some(Some("<Answer x=1>".to_owned())));
    assert_eq!(quoted(&"x".repeat(1_000)).flatten().map(|excerpt| excerpt.chars().count()), Some(121));
    assert_eq!(quoted("<text>hi</text>"), Some(None));
}

#[test]
fn code_ends_at_the_close_tag_that_is_no_part_of_a_token() {
    let codes = [
        r#"const a = "</typescript>";"#,
        r"const a = '\'</typescript>';",
        "const a = \"\\\n</typescript>\";",
        "const a = \"\\\r\n</typescript>\";",
        "const a = `</typescript>`;",
        "const a = `<typescript>1</typescript>\n<done/>`;",
        "const a = `${ f({ a: `}</typescript>${ '`' }` }) }</typescript>`;",
        "// not here </typescript>, but below\nf();",
        "// </typescript>\nconst x = 1;",
        "/* </typescript> ' ` */ f();",
        "const r = /[</typescript>`'\"]/g; const b = 1;",
        r"const r = /<\/typescript>'/.test(x);",
        "if (x) /['\"`]/.test(y);",
        "const q = a / b; const s = `</typescript>` / 2;",
        "return /`/.test(s)",
        "x.return / 2; const s = '`' ;",
        "i++ / 2; const s = '/`';",
        "const n = a[0] / f(1) / 2; // it's `fine`\n",
        "a! / b; const c = 'x/`';",
        "const x = <T,>(a: T) => a;",
        "```ts\nconst a = `it's`;\n```",
        "const a = ``; const b = `</typescript>`;",
    ];
    for code in codes {
        let message = format!("<typescript>\n{code}\n</typescript>\n<text>after</text><done/>");
        assert_eq!(air(&message), [format!("ts:{code}"), "text:after".to_owned(), "stop".to_owned()], "{code}");
    }
}

#[test]
fn a_comment_behind_the_last_statement_does_not_hide_the_end_of_the_code() {
    for rest in ["", "\n", "<done/>", "\n\n<done/>", " <text>after</text><done/>"] {
        let decoded = air(&format!("<typescript>f() // it's done</typescript>{rest}"));
        assert_eq!(decoded[0], "ts:f() // it's done", "{rest:?}");
        assert!(!decoded.iter().any(|block| block.starts_with("error")), "{decoded:?}");
    }
    assert_eq!(
        air("<typescript>a // x</typescript>\n<text>b</text>\n<typescript>c</typescript>"),
        ["ts:a // x", "text:b", "ts:c"]
    );
}

#[test]
fn code_that_cannot_be_balanced_ends_at_its_first_close_tag() {
    let broken = [
        "const a = 'oops;",
        "const a = \"oops",
        "const a = `oops;",
        "const a = `oops ${ f(;",
        "/* oops",
        "const r = /[oops",
        "const r = /oops",
        "f(`a` + 'b",
    ];
    for code in broken {
        let message =
            format!("<typescript>{code}</typescript>\n<text>it is</text>\n<typescript>g()</typescript><done/>");
        assert_eq!(
            air(&message),
            [format!("ts:{code}"), "text:it is".to_owned(), "ts:g()".to_owned(), "stop".to_owned()],
            "{code}"
        );
    }
}

#[test]
fn two_broken_blocks_do_not_become_one() {
    let message = "<typescript>f(`a</typescript><text>b</text><typescript>g(`c</typescript><done/>";
    assert_eq!(air(message), ["ts:f(`a", "text:b", "ts:g(`c", "stop"]);
}

#[test]
fn what_is_decided_is_told_at_once() {
    let steps = |format, pieces: &[&str]| {
        let mut decoder = decoder(format);
        let mut told = Vec::new();
        for piece in pieces {
            let mut events = Vec::new();
            decoder.feed(piece, &mut events);
            told.push(match events.as_slice() {
                [] => String::new(),
                [EngineEvent::TextDelta { content }] => content.clone(),
                events => blocks(events).join(" "),
            });
        }
        told
    };
    let message = [
        "<text>",
        "\n",
        "Hello",
        " wor",
        "ld <",
        "b>\n",
        "x\n</te",
        "xt>",
        "<typescript>f()</typescript",
        ">",
        "<done/>",
    ];
    assert_eq!(
        steps(Format::Air, &message),
        ["", "", "Hello", " wor", "ld ", "<b>", "\nx", "text:Hello world <b>\nx", "", "ts:f()", "stop"]
    );
    let message = ["Hello", " wor", "ld \n", "``", "x\n", "``", "`t", "s\nf()\n", "```\n"];
    assert_eq!(
        steps(Format::Fenced, &message),
        ["Hello", " wor", "ld", "", " \n``x", "", "", "text:Hello world \n``x", "ts:f()"]
    );
    let long = "x".repeat(600);
    assert_eq!(steps(Format::Fenced, &["```ts ", &long])[1].len(), 606, "no line of this length is a fence");
    assert_eq!(steps(Format::Air, &["<text a=\"", &format!("{long}>"), "<text>", "a"])[3], "a");
}

#[test]
fn a_close_tag_has_room_for_sixteen_bytes_of_space() {
    assert_eq!(air(&format!("<text>a</text{}><done/>", " ".repeat(16))), ["text:a", "stop"]);
    let spaced = format!("a</text{}>", " ".repeat(17));
    assert_eq!(air(&format!("<text>{spaced}</text><done/>")), [format!("text:{spaced}"), "stop".to_owned()]);
}

#[test]
fn splits_do_not_matter_where_tags_and_fences_become_too_long() {
    for length in (240..270).chain(500..525) {
        let filler = "x".repeat(length);
        air(&format!("<text a=\"{filler}\">a</text><done/>"));
        air(&format!("<text a=\">{filler}>a</text><done/>"));
        air(&format!("<{filler}>a</{filler}><done/>"));
        fenced(&format!("```ts {filler}\r\nf()\n```\na"));
        fenced(&format!("{}```ts\nf()\n```\na", " ".repeat(length)));
        fenced(&format!("{}ts\nf()\n```\na", "`".repeat(length)));
        fenced(&format!("```ts\nf()\n{}\na", "`".repeat(length)));
    }
    for length in 0..24 {
        air(&format!("<text>a</text{}>b</text><done/>", " ".repeat(length)));
        air(&format!("<typescript>a</typescript{}>b</typescript><done/>", "\n".repeat(length)));
    }
}

#[test]
fn hostile_messages_take_linear_time() {
    const SIZE: usize = 1 << 18;
    let hostile = [
        "<",
        "</",
        "<a",
        "<a>",
        "</text ",
        "<text><",
        "<text>\n",
        "<text></text \n",
        "<a x=\">\" ",
        "<typescript>",
        "<typescript>`</typescript>",
        "<typescript>'</typescript>\n",
        "<typescript>/*</typescript>",
        "<typescript>//</typescript>\n",
        "<typescript>f(`</typescript><text>",
        "<typescript>${`${(",
        "<typescript>`${</typescript>",
        "((((",
        "<typescript>((((",
        "}])",
        "```",
        "```ts\n",
        "```ts `",
        "~~~\n",
        " ",
        "\n ",
        "\r",
        "<typescript>\r",
        "<typescript></typescript ",
    ];
    let started = Instant::now();
    for format in [Format::Air, Format::Fenced, Format::Raw] {
        for part in hostile {
            let message = part.repeat(SIZE / part.len());
            let opened = format!("<typescript>{}", "(".repeat(1000));
            for message in [message.clone(), format!("{opened}{message}"), format!("`{message}")] {
                decode(format, [message.as_str()]);
            }
            let bytewise = &message[..SIZE / 8];
            decode(format, (0..bytewise.len()).map(|at| &bytewise[at..=at]));
        }
    }
    // Anything quadratic takes many minutes.
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn fences_of_typescript_are_code_and_the_rest_is_prose() {
    let message =
        "Let me look.\n\n```ts\nconst a = `x`;\n\nf(a)\n```\n\nand\n```TypeScript title=\"x\"\ng()\n````\nBye\n";
    assert_eq!(fenced(message), ["text:Let me look.", "ts:const a = `x`;\n\nf(a)", "text:and", "ts:g()", "text:Bye"]);
}

#[test]
fn a_fenced_message_without_code_is_the_end() {
    assert_eq!(fenced("All done."), ["text:All done.", "stop"]);
    assert_eq!(fenced("Use `x`:\n```json\n{}\n```\n\n"), ["text:Use `x`:\n```json\n{}\n```", "stop"]);
    assert_eq!(fenced("~~~\n```ts\nf()\n```\n~~~"), ["text:~~~\n```ts\nf()\n```\n~~~", "stop"]);
    assert_eq!(fenced("see ```ts f()``` there\n``\n```ts `x\n"), ["text:see ```ts f()``` there\n``\n```ts `x", "stop"]);
}

#[test]
fn a_fence_that_nothing_closes_is_incomplete_and_not_run() {
    assert_eq!(fenced("a\n```ts\nf()\n``"), ["text:a", "error:INCOMPLETE_BLOCK"]);
}

#[test]
fn a_fence_is_closed_by_one_at_least_as_long() {
    assert_eq!(fenced("````ts\nconst a = `\n```\n`\n````\r\n"), ["ts:const a = `\n```\n`"]);
    assert_eq!(fenced("  ```ts\r\n  f()\r\n  ```\r\nok"), ["ts:  f()", "text:ok"]);
}

#[test]
fn a_message_that_was_cut_off_is_not_the_end() {
    let mut decoder = decoder(Format::Fenced);
    let mut events = Vec::new();
    decoder.feed("All do", &mut events);
    decoder.finish(MessageEnd::Truncated, &mut events);
    assert_eq!(blocks(&events), ["text:All do"]);
}

#[test]
fn raw_text_is_left_as_it_is() {
    let message = "\n<done/>```ts\n1\n```\n";
    let whole = decode(Format::Raw, [message]);
    check_splits(Format::Raw, message, &whole);
    assert_eq!(blocks(&whole), [format!("text:{message}")]);
    assert!(decode(Format::Raw, []).is_empty());
}

/// Messages made of what decoders care about, well formed or not.
fn message() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        8 => prop::sample::select(vec![
            "<text>", "</text>", "<TEXT a=\"b>\">", "</text  >", "<typescript>", "</typescript>", "<thinking>",
            "</thinking>", "<done/>", "<done>", "<foo>", "</foo>", "<foo/>", "<", "</", ">", "/", "\n", "\r\n", "\r",
            "'", "\"", "`", "${", "{", "}", "(", ")", "[", "]", "\\", "//", "/*", "*/", " ", "\t", "return ", "if ",
            "a", "1", "+", "++", ".", "!", "=", "```", "```ts\n", "```ts", "```json\n", "~~~", "````", "``", "`", "é", "😀",
            "\u{a0}", "\u{2028}", "</typescr", "<don",
        ]).prop_map(str::to_owned),
        2 => "[a-z<>/`'\" \n]{0,12}",
        1 => "\\PC{0,6}",
        3 => "(<text>[a-z \n]{0,8}</text>|<typescript>[a-z0-9 '`/\n]{0,12}</typescript>\n?|<done/>)",
    ];
    prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

/// Code that is balanced by construction, close tags inside its tokens.
fn balanced_code() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "f(1);",
        "'</typescript>';",
        "\"it's </typescript>\";",
        "/* ` </typescript> */",
        "// </typescript> it's\n",
        "`a`;",
        "`</typescript>`;",
        "x = a / b;",
        "x = /['\"`]/g;",
        "\n",
        " ",
        "return /[</typescript>]/;",
        "a++ / 2;",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|code| format!("{{ {code} }}\n")),
            inner.clone().prop_map(|code| format!("`$ ${{ (() => {{ {code} }})() }} </typescript>`;")),
            prop::collection::vec(inner, 0..4).prop_map(|codes| codes.concat()),
        ]
    })
}

fn pieces<'a>(message: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let boundaries: Vec<usize> = message.char_indices().map(|(at, _)| at).chain([message.len()]).collect();
    let mut at: Vec<usize> = cuts.iter().map(|cut| *cut.get(&boundaries)).chain([0, message.len()]).collect();
    at.sort_unstable();
    at.windows(2).map(|pair| &message[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_split_of_a_message_changes_what_it_says(
        message in message(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        for format in [Format::Air, Format::Fenced, Format::Raw] {
            let whole = decode(format, [message.as_str()]);
            check_splits(format, &message, &whole);
            check_pieces(format, pieces(&message, &cuts), &whole);
        }
    }

    #[test]
    fn balanced_code_is_one_block_whatever_its_tokens_hold(code in balanced_code()) {
        let message = format!("<text>a</text><typescript>\n{code}\n</typescript><text>b</text><done/>");
        let expected = ["text:a".to_owned(), format!("ts:{code}"), "text:b".to_owned(), "stop".to_owned()];
        prop_assert_eq!(blocks(&decode(Format::Air, [message.as_str()])), expected);
    }

    #[test]
    fn well_formed_blocks_are_decoded_as_they_were_written(
        parts in prop::collection::vec(("[a-z .,!]{1,20}", prop::bool::ANY), 0..8),
    ) {
        let mut message = String::new();
        let mut expected = Vec::new();
        for (content, is_code) in parts {
            let (tag, name) = if is_code { ("typescript", "ts") } else { ("text", "text") };
            message.push_str(&format!("<{tag}>{content}</{tag}>\n"));
            expected.push(format!("{name}:{content}"));
        }
        message.push_str("<done/>");
        expected.push("stop".to_owned());
        prop_assert_eq!(blocks(&decode(Format::Air, [message.as_str()])), expected);
    }
}
