//! The list of all streamers, read page by page. `client` requests it, `inbound` passes the pages.

use std::borrow::Cow;

use super::Present;
use super::claim::MAX_USED_ID_BYTES;
use super::mesh::{Context, LIST};
use super::peer::Kind;
use super::subscription::Subscription;
use crate::json::{Object, quote};

/// Maximum ids in a list. Later streamers are not in it.
const MAX_IDS: usize = 2000;
/// Maximum bytes of all ids in a list, as JSON strings. An id that exceeds it is left out.
const MAX_BYTES: usize = 256 * 1024;

/// The list that a client requests.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Ids so far as JSON strings. `None`: no list is requested.
    ids: Option<Vec<String>>,
    bytes: usize,
    /// `true` if the client gets the list.
    is_answer: bool,
    /// `true` if the client has requested a list since this one was begun.
    again: bool,
}

impl Listing {
    /// Requests a list. `is_answer`: `true` if the client gets it, `false` if only its subscription
    /// needs the first id. While a list is being read, that list serves the subscription, and one
    /// more follows for the client.
    pub(super) fn request(&mut self, context: &mut Context<'_>, is_answer: bool) {
        if self.ids.is_some() {
            self.again |= is_answer;
            return;
        }
        *self = Self { ids: Some(Vec::new()), is_answer, ..Self::default() };
        context.list(LIST, None);
    }

    /// Adds a page of streamers. `is_first`: the list begins again. `more`: further pages follow.
    /// Skips members that are no streamers, and ids of more than `MAX_USED_ID_BYTES`.
    ///
    /// The list ends after the last page or with 2,000 ids. An id that would take it over
    /// 256 KiB is left out. `subscription` gets the first id of the ended list. Returns `true` if
    /// the next page is needed. Ignores a page without a requested list.
    pub(super) fn page(
        &mut self,
        context: &mut Context<'_>,
        subscription: &mut Subscription,
        members: &[Present<'_>],
        (is_first, more): (bool, bool),
    ) -> bool {
        let Some(mut ids) = self.ids.take() else { return false };
        if is_first {
            ids.clear();
            self.bytes = 0;
        }
        for id in members.iter().filter_map(id_of) {
            let quoted = quote(&id);
            if ids.len() < MAX_IDS && self.bytes + quoted.len() <= MAX_BYTES {
                self.bytes += quoted.len();
                ids.push(quoted);
            }
        }
        if more && ids.len() < MAX_IDS && self.bytes < MAX_BYTES {
            self.ids = Some(ids);
            return true;
        }
        if self.is_answer {
            context.out.frames.push(format!(r#"{{"type":"streamerList","ids":[{}]}}"#, ids.join(",")));
        }
        if std::mem::take(&mut self.again) {
            self.request(context, true);
        }
        let first: Option<String> = ids.first().and_then(|id| serde_json::from_str(id).ok());
        subscription.listed(context, first.as_deref());
        false
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.ids.as_ref().map_or(0, |ids| ids.capacity() * size_of::<String>())
    }
}

fn id_of<'a>(member: &Present<'a>) -> Option<Cow<'a, str>> {
    let id = Object::parse(member.data?.get().as_bytes())?.string("id")?;
    (member.peer.kind == Kind::Streamer && id.len() <= MAX_USED_ID_BYTES).then_some(id)
}
