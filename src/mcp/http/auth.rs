//! Authentication: the header is read once, and then it is gone.

use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};

use super::tokens;
use crate::audit::Caller;

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    /// A principal.
    Known(Caller),
    /// No authentication is asked for.
    Anybody,
    /// Somebody who has to say who it is.
    Nobody,
}

/// What was sent to say who it is.
pub(super) enum Sent {
    Nothing,
    Token(Vec<u8>),
    /// Another scheme, or two headers.
    Unusable,
}

/// Takes the credentials out of the headers: no tool and no log sees them.
pub(super) fn take(headers: &mut HeaderMap) -> Sent {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let sent = match (given.next(), given.next()) {
        (None, _) => Sent::Nothing,
        (Some(one), None) => {
            tokens::bearer(one.as_bytes()).map_or(Sent::Unusable, |token| Sent::Token(token.to_vec()))
        }
        _ => Sent::Unusable,
    };
    for name in [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE] {
        headers.remove(name);
    }
    sent
}
