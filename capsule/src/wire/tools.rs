//! The user's tools on the wire.

use super::codec::{DecodeError, Decoder, Encoder};
use crate::{ToolFile, ToolMember, ToolModule, ToolProblem, ToolReport};

pub fn encode_files(out: &mut Encoder, files: &[ToolFile]) {
    out.list(files, |out, file| {
        out.str(&file.path);
        out.str(&file.source);
        out.option(file.namespace.as_deref(), Encoder::str);
    });
}

pub fn decode_files(body: &mut Decoder<'_>) -> Result<Vec<ToolFile>, DecodeError> {
    body.list(|body| {
        Ok(ToolFile { path: body.string()?, source: body.string()?, namespace: body.option(Decoder::string)? })
    })
}

pub fn encode_report(out: &mut Encoder, report: &ToolReport) {
    out.list(&report.modules, |out, module| {
        out.str(&module.name);
        out.option(module.description.as_deref(), Encoder::str);
        out.list(&module.types, |out, text| out.str(text));
        out.list(&module.members, |out, member| {
            out.str(&member.name);
            out.str(&member.declaration);
            out.option(member.jsdoc.as_deref(), Encoder::str);
        });
    });
    out.list(&report.problems, |out, problem| {
        out.str(&problem.path);
        out.u64(problem.line as u64);
        out.u64(problem.column as u64);
        out.str(&problem.message);
    });
}

pub fn decode_report(body: &mut Decoder<'_>) -> Result<ToolReport, DecodeError> {
    let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let modules = body.list(|body| {
        Ok(ToolModule {
            name: body.string()?,
            description: body.option(Decoder::string)?,
            types: body.list(Decoder::string)?,
            members: body.list(|body| {
                Ok(ToolMember {
                    name: body.string()?,
                    declaration: body.string()?,
                    jsdoc: body.option(Decoder::string)?,
                })
            })?,
        })
    })?;
    let problems = body.list(|body| {
        Ok(ToolProblem {
            path: body.string()?,
            line: count(body.u64()?),
            column: count(body.u64()?),
            message: body.string()?,
        })
    })?;
    Ok(ToolReport { modules, problems })
}

#[cfg(test)]
pub mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    pub fn file() -> impl Strategy<Value = ToolFile> + Clone {
        (any::<String>(), any::<String>(), any::<Option<String>>()).prop_map(|(path, source, namespace)| ToolFile {
            path,
            source,
            namespace,
        })
    }

    pub fn report() -> impl Strategy<Value = ToolReport> {
        let member = (any::<String>(), any::<String>(), any::<Option<String>>())
            .prop_map(|(name, declaration, jsdoc)| ToolMember { name, declaration, jsdoc });
        let module = (any::<String>(), any::<Option<String>>(), vec(any::<String>(), 0..3), vec(member, 0..3))
            .prop_map(|(name, description, types, members)| ToolModule { name, description, types, members });
        let problem =
            (any::<String>(), any::<u32>(), any::<u32>(), any::<String>()).prop_map(|(path, line, column, message)| {
                ToolProblem { path, line: line as usize, column: column as usize, message }
            });
        (vec(module, 0..3), vec(problem, 0..3)).prop_map(|(modules, problems)| ToolReport { modules, problems })
    }
}
