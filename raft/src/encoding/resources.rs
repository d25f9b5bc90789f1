//! The resources that an encoded log entry writes, found without decoding it.
//!
//! Owns the walk by which a disk decides whether an entry is encrypted. Only puts count: conditions and deletions hold
//! names, which are stored in clear.

use super::DecodeError;
use super::check::{Value, Walk};

/// The resources whose objects the encoded `entry` puts, each once, in the order of the entry.
pub(crate) fn written_resources(entry: &[u8]) -> Result<Vec<&str>, DecodeError> {
    let mut found = Vec::new();
    let mut fields = Walk::over("log entry", entry, &[]);
    // The payload stands behind the id, whatever its number is; other fields follow it.
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, _) => {}
            (2, Value::Bytes(transaction)) => {
                in_transaction(transaction, &mut found)?;
                break;
            }
            _ => break,
        }
    }
    Ok(found)
}

fn in_transaction<'a>(transaction: &'a [u8], found: &mut Vec<&'a str>) -> Result<(), DecodeError> {
    let mut fields = Walk::over("transaction", transaction, &[3, 4]);
    while let Some((number, value)) = fields.next()? {
        if let (4, Value::Bytes(operation)) = (number, value)
            && let Some(put) = first("operation", operation)?
            && let Some(key) = first("put", put)?
        {
            let resource = first("key", key)?.unwrap_or_default();
            let resource = std::str::from_utf8(resource).map_err(|error| DecodeError::new("key", error))?;
            if !found.contains(&resource) {
                found.push(resource);
            }
        }
    }
    Ok(())
}

/// The first field of a message if it is field 1 with bytes: in an operation the put, in a put the key, in a key the resource.
fn first<'a>(what: &'static str, message: &'a [u8]) -> Result<Option<&'a [u8]>, DecodeError> {
    match Walk::over(what, message, &[]).next()? {
        Some((1, Value::Bytes(bytes))) => Ok(Some(bytes)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::store as wire;
    use prost::Message;

    use super::*;

    fn put(resource: &str) -> wire::Operation {
        let key = wire::Key { resource: resource.to_owned(), path: "ns/n".to_owned() };
        let put = wire::Put { key: Some(key), json: "{}".into(), ..wire::Put::default() };
        wire::Operation { kind: Some(wire::operation::Kind::Put(put)) }
    }

    fn delete(resource: &str) -> wire::Operation {
        let key = wire::Key { resource: resource.to_owned(), path: "ns/n".to_owned() };
        wire::Operation { kind: Some(wire::operation::Kind::Delete(key)) }
    }

    fn entry(operations: Vec<wire::Operation>) -> Vec<u8> {
        let transaction = wire::Transaction { operations, proposed_ms: 7, ..wire::Transaction::default() };
        let payload = wire::entry::Payload::Transaction(transaction.encode_to_vec().into());
        let log_id = Some(wire::LogId { term: 1, index: 2 });
        wire::Entry { log_id, payload: Some(payload), format: 1 }.encode_to_vec()
    }

    #[test]
    fn the_resources_of_puts_are_found_once_each() {
        let mixed = entry(vec![put("pods"), delete("leases.coordination"), put("secrets"), put("pods")]);
        assert_eq!(written_resources(&mixed).unwrap(), ["pods", "secrets"]);
        let blank = wire::Entry {
            payload: Some(wire::entry::Payload::Blank(wire::Blank {})),
            format: 1,
            log_id: None,
        };
        assert!(written_resources(&blank.encode_to_vec()).unwrap().is_empty());
    }

    #[test]
    fn an_entry_cut_short_is_an_error() {
        let whole = entry(vec![put("secrets")]);
        assert!(written_resources(&whole[..whole.len() - 4]).is_err());
    }
}
