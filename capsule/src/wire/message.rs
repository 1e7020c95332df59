//! What the kernel and the isolate process say to each other.

use std::time::Duration;

use super::{
    codec::{DecodeError, Decoder, Encoder},
    tools,
};
use crate::{BlockError, BlockErrorKind, Datum, Limits, Namespace, ToolError, ToolFile, ToolReport};

/// Names a run within one incarnation of the process.
pub type RunId = u64;
/// Names a tool call within one run.
pub type CallId = u64;

/// From the kernel to the isolate process.
#[derive(Clone, Debug, PartialEq)]
pub enum ToHost {
    /// The first message: what every block is held to.
    Limits(Limits),
    Run(RunRequest),
    /// The run's signal aborts; it has a short grace to notice.
    Cancel(RunId),
    ToolResult {
        run: RunId,
        call: CallId,
        result: Result<Datum, ToolError>,
    },
    Shutdown,
    /// Asks what files of `tools/` declare.
    Describe {
        id: RunId,
        files: Vec<ToolFile>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunRequest {
    pub run: RunId,
    pub source: String,
    pub namespaces: Vec<Namespace>,
    pub files: Vec<ToolFile>,
}

/// From the isolate process to the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum ToKernel {
    /// The engine is up. `v8` or `quickjs`.
    Ready {
        backend: String,
    },
    /// The run has its isolate: its clocks run from here.
    Started(RunId),
    ToolCall {
        run: RunId,
        call: CallId,
        namespace: String,
        function: String,
        args: Vec<Datum>,
    },
    /// The block does not want a call's answer any more.
    CancelCall {
        run: RunId,
        call: CallId,
    },
    Done(RunReport),
    Described {
        id: RunId,
        report: ToolReport,
    },
    /// An isolate could not be stopped: the process wants to be replaced once its other runs have ended.
    Retire,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    pub run: RunId,
    /// The value as JSON text.
    pub result: Result<Option<String>, BlockError>,
    pub stdout: Vec<String>,
    pub truncated: bool,
    pub cpu: Duration,
    pub peak_bytes: u64,
}

impl ToHost {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        match self {
            Self::Limits(limits) => {
                out.u8(0);
                encode_limits(&mut out, limits);
            }
            Self::Run(request) => {
                out.u8(1);
                out.u64(request.run);
                out.str(&request.source);
                out.list(&request.namespaces, |out, namespace| {
                    out.str(&namespace.name);
                    out.list(&namespace.members, |out, member| out.str(member));
                });
                tools::encode_files(&mut out, &request.files);
            }
            Self::Cancel(run) => {
                out.u8(2);
                out.u64(*run);
            }
            Self::ToolResult { run, call, result } => {
                out.u8(3);
                out.u64(*run);
                out.u64(*call);
                match result {
                    Ok(datum) => {
                        out.u8(0);
                        out.datum(datum);
                    }
                    Err(error) => {
                        out.u8(1);
                        out.str(&error.name);
                        out.str(&error.message);
                        out.option(error.code.as_deref(), Encoder::str);
                    }
                }
            }
            Self::Shutdown => out.u8(4),
            Self::Describe { id, files } => {
                out.u8(5);
                out.u64(*id);
                tools::encode_files(&mut out, files);
            }
        }
        out.finish()
    }

    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut body = Decoder::new(body);
        let message = match body.u8()? {
            0 => Self::Limits(decode_limits(&mut body)?),
            1 => Self::Run(RunRequest {
                run: body.u64()?,
                source: body.string()?,
                namespaces: body
                    .list(|body| Ok(Namespace { name: body.string()?, members: body.list(Decoder::string)? }))?,
                files: tools::decode_files(&mut body)?,
            }),
            2 => Self::Cancel(body.u64()?),
            3 => Self::ToolResult {
                run: body.u64()?,
                call: body.u64()?,
                result: match body.u8()? {
                    0 => Ok(body.datum()?),
                    1 => Err(ToolError {
                        name: body.string()?,
                        message: body.string()?,
                        code: body.option(Decoder::string)?,
                    }),
                    tag => return Err(DecodeError::UnknownTag { what: "a tool's result", tag }),
                },
            },
            4 => Self::Shutdown,
            5 => Self::Describe { id: body.u64()?, files: tools::decode_files(&mut body)? },
            tag => return Err(DecodeError::UnknownTag { what: "a message to the host", tag }),
        };
        body.finish()?;
        Ok(message)
    }
}

impl ToKernel {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        match self {
            Self::Ready { backend } => {
                out.u8(0);
                out.str(backend);
            }
            Self::Started(run) => {
                out.u8(1);
                out.u64(*run);
            }
            Self::ToolCall { run, call, namespace, function, args } => {
                out.u8(2);
                out.u64(*run);
                out.u64(*call);
                out.str(namespace);
                out.str(function);
                out.list(args, Encoder::datum);
            }
            Self::Done(report) => {
                out.u8(3);
                encode_report(&mut out, report);
            }
            Self::Retire => out.u8(4),
            Self::Described { id, report } => {
                out.u8(6);
                out.u64(*id);
                tools::encode_report(&mut out, report);
            }
            Self::CancelCall { run, call } => {
                out.u8(5);
                out.u64(*run);
                out.u64(*call);
            }
        }
        out.finish()
    }

    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut body = Decoder::new(body);
        let message = match body.u8()? {
            0 => Self::Ready { backend: body.string()? },
            1 => Self::Started(body.u64()?),
            2 => Self::ToolCall {
                run: body.u64()?,
                call: body.u64()?,
                namespace: body.string()?,
                function: body.string()?,
                args: body.list(Decoder::datum)?,
            },
            3 => Self::Done(decode_report(&mut body)?),
            4 => Self::Retire,
            6 => Self::Described { id: body.u64()?, report: tools::decode_report(&mut body)? },
            5 => Self::CancelCall { run: body.u64()?, call: body.u64()? },
            tag => return Err(DecodeError::UnknownTag { what: "a message to the kernel", tag }),
        };
        body.finish()?;
        Ok(message)
    }
}

fn encode_limits(out: &mut Encoder, limits: &Limits) {
    // Destructured so that a new limit cannot be forgotten here.
    let Limits {
        timeout,
        total_timeout,
        memory_bytes,
        max_output_bytes,
        max_source_bytes,
        max_concurrent_blocks,
        max_tool_calls,
    } = limits;
    out.u64(millis(*timeout));
    out.u64(millis(*total_timeout));
    for limit in [memory_bytes, max_output_bytes, max_source_bytes, max_concurrent_blocks, max_tool_calls] {
        out.u64(*limit as u64);
    }
}

fn decode_limits(body: &mut Decoder<'_>) -> Result<Limits, DecodeError> {
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Ok(Limits {
        timeout: Duration::from_millis(body.u64()?),
        total_timeout: Duration::from_millis(body.u64()?),
        memory_bytes: size(body.u64()?),
        max_output_bytes: size(body.u64()?),
        max_source_bytes: size(body.u64()?),
        max_concurrent_blocks: size(body.u64()?),
        max_tool_calls: size(body.u64()?),
    })
}

fn encode_report(out: &mut Encoder, report: &RunReport) {
    out.u64(report.run);
    match &report.result {
        Ok(value) => {
            out.u8(0);
            out.option(value.as_deref(), Encoder::str);
        }
        Err(error) => {
            out.u8(1);
            out.u8(match error.kind {
                BlockErrorKind::Timeout => 0,
                BlockErrorKind::Interrupt => 1,
                BlockErrorKind::Exception => 2,
            });
            out.str(&error.message);
            out.option(error.code.as_deref(), Encoder::str);
        }
    }
    out.list(&report.stdout, |out, line| out.str(line));
    out.u8(report.truncated.into());
    out.u64(u64::try_from(report.cpu.as_micros()).unwrap_or(u64::MAX));
    out.u64(report.peak_bytes);
}

fn decode_report(body: &mut Decoder<'_>) -> Result<RunReport, DecodeError> {
    Ok(RunReport {
        run: body.u64()?,
        result: match body.u8()? {
            0 => Ok(body.option(Decoder::string)?),
            1 => Err(BlockError {
                kind: match body.u8()? {
                    0 => BlockErrorKind::Timeout,
                    1 => BlockErrorKind::Interrupt,
                    2 => BlockErrorKind::Exception,
                    tag => return Err(DecodeError::UnknownTag { what: "an error's kind", tag }),
                },
                message: body.string()?,
                code: body.option(Decoder::string)?,
            }),
            tag => return Err(DecodeError::UnknownTag { what: "a run's result", tag }),
        },
        stdout: body.list(Decoder::string)?,
        truncated: body.bool()?,
        cpu: Duration::from_micros(body.u64()?),
        peak_bytes: body.u64()?,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn datum() -> impl Strategy<Value = Datum> {
        let leaf = prop_oneof![
            Just(Datum::Undefined),
            Just(Datum::Null),
            any::<bool>().prop_map(Datum::Bool),
            any::<f64>().prop_map(Datum::Number),
            any::<String>().prop_map(Datum::String),
            any::<Vec<u8>>().prop_map(Datum::Bytes),
            prop::num::f64::NORMAL.prop_map(Datum::Date),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Datum::Array),
                prop::collection::vec((any::<String>(), inner), 0..8).prop_map(Datum::Object),
            ]
        })
    }

    fn tool_error() -> impl Strategy<Value = ToolError> {
        (any::<String>(), any::<String>(), any::<Option<String>>()).prop_map(|(name, message, code)| ToolError {
            name,
            message,
            code,
        })
    }

    fn block_error() -> impl Strategy<Value = BlockError> {
        let kind = prop_oneof![
            Just(BlockErrorKind::Timeout),
            Just(BlockErrorKind::Interrupt),
            Just(BlockErrorKind::Exception)
        ];
        (kind, any::<String>(), any::<Option<String>>()).prop_map(|(kind, message, code)| BlockError {
            kind,
            message,
            code,
        })
    }

    fn to_host() -> impl Strategy<Value = ToHost> {
        let namespace = (any::<String>(), any::<Vec<String>>()).prop_map(|(name, members)| Namespace { name, members });
        let files = prop::collection::vec(tools::tests::file(), 0..3);
        prop_oneof![
            Just(ToHost::Limits(Limits::default())),
            (any::<u64>(), any::<String>(), prop::collection::vec(namespace, 0..4), files.clone()).prop_map(
                |(run, source, namespaces, files)| ToHost::Run(RunRequest { run, source, namespaces, files })
            ),
            (any::<u64>(), files).prop_map(|(id, files)| ToHost::Describe { id, files }),
            any::<u64>().prop_map(ToHost::Cancel),
            (any::<u64>(), any::<u64>(), prop::result::maybe_err(datum(), tool_error()))
                .prop_map(|(run, call, result)| ToHost::ToolResult { run, call, result }),
            Just(ToHost::Shutdown),
        ]
    }

    fn to_kernel() -> impl Strategy<Value = ToKernel> {
        let report = (
            any::<u64>(),
            prop::result::maybe_err(any::<Option<String>>(), block_error()),
            any::<Vec<String>>(),
            any::<bool>(),
            any::<u32>(),
            any::<u64>(),
        )
            .prop_map(|(run, result, stdout, truncated, micros, peak_bytes)| RunReport {
                run,
                result,
                stdout,
                truncated,
                cpu: Duration::from_micros(micros.into()),
                peak_bytes,
            });
        prop_oneof![
            any::<String>().prop_map(|backend| ToKernel::Ready { backend }),
            any::<u64>().prop_map(ToKernel::Started),
            (any::<u64>(), any::<u64>(), any::<String>(), any::<String>(), prop::collection::vec(datum(), 0..4))
                .prop_map(|(run, call, namespace, function, args)| ToKernel::ToolCall {
                    run,
                    call,
                    namespace,
                    function,
                    args
                }),
            report.prop_map(ToKernel::Done),
            (any::<u64>(), tools::tests::report()).prop_map(|(id, report)| ToKernel::Described { id, report }),
            Just(ToKernel::Retire),
            (any::<u64>(), any::<u64>()).prop_map(|(run, call)| ToKernel::CancelCall { run, call }),
        ]
    }

    proptest! {
        #[test]
        fn every_message_to_the_host_survives_the_wire(message in to_host()) {
            prop_assert_eq!(ToHost::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn every_message_to_the_kernel_survives_the_wire(message in to_kernel()) {
            prop_assert_eq!(ToKernel::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn hostile_bytes_are_an_error_and_nothing_worse(bytes: Vec<u8>) {
            let _ = ToKernel::decode(&bytes);
            let _ = ToHost::decode(&bytes);
        }

        #[test]
        fn a_damaged_message_is_an_error_or_another_message(
            message in to_kernel(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
        ) {
            let mut bytes = message.encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = ToKernel::decode(&bytes);
            let _ = ToKernel::decode(&bytes[..cut.index(bytes.len())]);
        }
    }

    #[test]
    fn nesting_beyond_the_limit_is_refused_without_overflow() {
        let mut bytes = vec![2];
        bytes.extend([0; 16]);
        bytes.extend([0; 16]);
        bytes.extend(1_u64.to_le_bytes());
        // Arrays of one array each.
        for _ in 0..1_000_000 {
            bytes.push(8);
            bytes.extend(1_u64.to_le_bytes());
        }
        assert_eq!(ToKernel::decode(&bytes), Err(DecodeError::TooDeep));
    }

    #[test]
    fn a_false_count_reserves_nothing() {
        let mut bytes = vec![2];
        bytes.extend([0; 16]);
        bytes.extend([0; 16]);
        bytes.extend(u64::MAX.to_le_bytes());
        assert_eq!(ToKernel::decode(&bytes), Err(DecodeError::Truncated));
    }
}
