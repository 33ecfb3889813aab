//! What a client is told when something fails: a status of gRPC, with the SQLSTATE in the text and as `x-sqlstate`
//! beside it.

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::fault::{Fault, codes};

/// Beside a status.
const SQLSTATE: &str = "x-sqlstate";

impl From<Fault> for Status {
    fn from(fault: Fault) -> Status {
        let mut beside = MetadataMap::new();
        if let Ok(code) = MetadataValue::try_from(fault.code) {
            beside.insert(SQLSTATE, code);
        }
        let hint = fault.hint.map_or_else(String::new, |hint| format!("; {hint}"));
        let message = format!("{}{hint} (SQLSTATE {})", fault.message, fault.code);
        Status::with_metadata(code_of(fault.code), message, beside)
    }
}

/// A message that is not as the protocol has it.
pub fn malformed(what: &str) -> Fault {
    Fault::new(codes::PROTOCOL_VIOLATION, format!("a message is not as it should be: {what}"))
}

/// A call that there is not.
pub fn unsupported(message: impl Into<String>) -> Fault {
    Fault::new(codes::FEATURE_NOT_SUPPORTED, message)
}

/// gRPC's code of an SQLSTATE.
fn code_of(code: &str) -> Code {
    match code {
        codes::QUERY_CANCELED => Code::Cancelled,
        codes::ADMIN_SHUTDOWN => Code::Unavailable,
        codes::FEATURE_NOT_SUPPORTED => Code::Unimplemented,
        codes::INVALID_PASSWORD => Code::Unauthenticated,
        codes::INVALID_AUTHORIZATION | "42501" => Code::PermissionDenied,
        codes::INVALID_SQL_STATEMENT_NAME | "42P01" | "3F000" => Code::NotFound,
        "42P07" | "42710" => Code::AlreadyExists,
        _ => match &code[..code.len().min(2)] {
            "08" | "22" | "42" => Code::InvalidArgument,
            "40" => Code::Aborted,
            "53" | "54" => Code::ResourceExhausted,
            "58" | "XX" => Code::Internal,
            _ => Code::FailedPrecondition,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_sqlstate() {
        let fault = Fault::new("42P01", "relation \"wörter\" does not exist").hint("create it");
        let status = Status::from(fault);
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.message(), "relation \"wörter\" does not exist; create it (SQLSTATE 42P01)");
        assert_eq!(status.metadata().get(SQLSTATE).unwrap(), "42P01");
        for (code, of) in
            [("40001", Code::Aborted), ("23505", Code::FailedPrecondition), ("", Code::FailedPrecondition)]
        {
            assert_eq!(code_of(code), of, "{code}");
        }
    }
}
