//! Properties of any input: a frame decodes to what was encoded, and damaged bytes are refused
//! without harm.

use std::fmt::Debug;
use std::time::{Duration, Instant, UNIX_EPOCH};

use arbitrary::{Arbitrary, Unstructured};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use signaling_protocol::ClientId;
use signaling_protocol::limits::{MAX_HOLD, MAX_MESSAGE_BYTES};

use crate::codec::DecodeError;
use crate::forward::{self, Item};
use crate::lane::{self, Acknowledgement, Frame, FrameReader};
use crate::limits::MAX_FRAME_BYTES;
use crate::seats::{SeatState, SessionState};
use crate::trunk::{ToEdge, ToNode};
use crate::{BatchNumber, Elapsed, ExchangeNumber, RemainingTtl, Seq, SessionId, resume};

/// Frames of any content. They borrow their texts and bytes, which are leaked.
fn frame<T: Arbitrary<'static> + Debug>() -> impl Strategy<Value = T> {
    let printable_or_any = |(is_printable, byte)| if is_printable { b' ' + byte % 95 } else { byte };
    vec(any::<(bool, u8)>(), 0..400).prop_map(move |bytes| {
        let bytes: Vec<u8> = bytes.into_iter().map(printable_or_any).collect();
        T::arbitrary(&mut Unstructured::new(bytes.leak())).unwrap()
    })
}

type Take<'a, T> = fn(&mut &'a [u8]) -> Result<T, DecodeError>;

/// Takes frames until the bytes end or make no sense; each one must use some of them.
fn take_all<'a, T>(mut bytes: &'a [u8], take: Take<'a, T>) -> (Vec<T>, &'a [u8]) {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let before = bytes;
        let Ok(frame) = take(&mut bytes) else {
            assert_eq!(bytes, before, "what is refused stays as it was");
            break;
        };
        assert!(bytes.len() < before.len(), "a frame has at least one byte");
        frames.push(frame);
    }
    (frames, bytes)
}

fn assert_run_returns<'a, T: PartialEq + Debug>(written: &'a [u8], frames: &[T], take: Take<'a, T>) {
    let (read, rest) = take_all(written, take);
    assert_eq!(read, frames);
    assert!(rest.is_empty());
}

fn read_as_everything(bytes: &[u8]) {
    take_all(bytes, ToNode::take);
    take_all(bytes, ToEdge::take);
    take_all(bytes, Item::take);
    let mut batch = bytes;
    if forward::open(&mut batch).is_ok() {
        take_all(batch, Item::take);
    }
}

fn ttl_of(item: &Item<'_>) -> Option<RemainingTtl> {
    match item {
        Item::Envelope(envelope) | Item::Copies { envelope, .. } => Some(envelope.ttl),
        Item::Lingering { ttl, .. } => Some(*ttl),
        _ => None,
    }
}

/// The time this many steps of 10 ms after the start.
fn time(steps: u32) -> Elapsed {
    let start = Instant::now();
    Elapsed::between(start, start + Duration::from_millis(u64::from(steps) * 10))
}

proptest! {
    #[test]
    fn frames_to_a_node_come_back_as_they_went_out(frames in vec(frame::<ToNode<'_>>(), 0..12)) {
        let mut written = Vec::new();
        frames.iter().for_each(|frame| frame.append(&mut written));
        assert_run_returns(&written, &frames, ToNode::take);
    }

    #[test]
    fn frames_to_an_edge_come_back_as_they_went_out(frames in vec(frame::<ToEdge<'_>>(), 0..12)) {
        let mut written = Vec::new();
        frames.iter().for_each(|frame| frame.append(&mut written));
        assert_run_returns(&written, &frames, ToEdge::take);
    }

    #[test]
    fn frames_of_a_lane_come_back_whatever_the_chunks(
        batches in vec((any::<u64>(), any::<u32>(), vec(frame::<Item<'_>>(), 0..6)), 1..6),
        cuts in vec(any::<Index>(), 0..12),
    ) {
        let frame = |(number, elapsed, items): &(u64, u32, Vec<Item<'_>>)| lane::frame(0, |out| {
            forward::start(out, BatchNumber(*number), time(*elapsed));
            items.iter().for_each(|item| item.append(out));
        });
        let number = |(number, ..): &(u64, u32, Vec<Item<'_>>)| *number;
        let between = |batch: &(u64, u32, Vec<Item<'_>>)| {
            let number = number(batch);
            let of = Acknowledgement { number: BatchNumber(number), names_you: number % 2 == 1 };
            [lane::acknowledgement(of, number / 2), lane::exchange(ExchangeNumber(number))].concat()
        };
        let stream: Vec<u8> = batches.iter().flat_map(|batch| [between(batch), frame(batch)].concat()).collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let (mut reader, mut read, mut others) = (FrameReader::default(), Vec::new(), Vec::new());
        for chunk in cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]) {
            let taken = reader.read(chunk, |frame| {
                match frame {
                    Frame::Batch(batch) => read.push(batch.to_vec()),
                    Frame::Acknowledgement(of, counter) => {
                        assert_eq!((of.names_you, counter), (of.number.0 % 2 == 1, of.number.0 / 2));
                        others.push((false, of.number.0));
                    }
                    Frame::Exchange(ExchangeNumber(number)) => others.push((true, number)),
                }
                Ok::<_, DecodeError>(())
            });
            taken.unwrap();
        }
        let expected: Vec<_> = batches.iter().map(number).flat_map(|number| [(false, number), (true, number)]).collect();
        prop_assert_eq!(others, expected);
        prop_assert_eq!(read.len(), batches.len());
        for (read, (number, elapsed, items)) in read.iter().zip(&batches) {
            let mut bytes = &**read;
            prop_assert_eq!(forward::open(&mut bytes).unwrap(), (BatchNumber(*number), time(*elapsed)));
            assert_run_returns(bytes, items, Item::take);
        }
    }

    #[test]
    fn damaged_frames_do_no_harm(
        up in vec(frame::<ToNode<'_>>(), 1..6),
        down in vec(frame::<ToEdge<'_>>(), 1..6),
        items in vec(frame::<Item<'_>>(), 1..6),
        damages in vec((any::<Index>(), any::<u8>()), 1..6),
    ) {
        let mut runs = [const { Vec::new() }; 3];
        up.iter().for_each(|frame| frame.append(&mut runs[0]));
        down.iter().for_each(|frame| frame.append(&mut runs[1]));
        forward::start(&mut runs[2], BatchNumber(1), Elapsed::default());
        items.iter().for_each(|item| item.append(&mut runs[2]));
        for run in &mut runs {
            for (at, byte) in &damages {
                let at = at.index(run.len());
                run[at] = *byte;
            }
            read_as_everything(run);
        }
    }

    #[test]
    fn room_time_of_a_late_copy_is_later(time in any::<u64>(), late_ms in 0..700_000_u64) {
        let at = forward::LogPosition { epoch: 1, number: 1 };
        let mut item = Item::RoomCopy { room: "r", at, base: 0, time, offset: 0, part: &[], last: true };
        item.count_lateness(Duration::from_millis(late_ms));
        let counted = if let Item::RoomCopy { time, .. } = item { Some(time) } else { None };
        prop_assert_eq!(counted, Some(time.saturating_add(late_ms)));
    }

    #[test]
    fn ttl_of_a_late_item_is_shorter(mut item in frame::<Item<'_>>(), late_ms in 0..700_000_u64) {
        let (before, late) = (ttl_of(&item), Duration::from_millis(late_ms));
        item.count_lateness(late);
        prop_assert_eq!(ttl_of(&item), before.map(|ttl| ttl.less(late)));
    }

    #[test]
    fn session_state_is_read_as_it_was_written(
        resumed in any::<bool>(),
        seats in vec(frame::<SeatState<'_>>(), 0..4),
        delivered in vec(any::<(u64, u64)>(), 0..4),
    ) {
        let state = SessionState { resumed, seats, delivered };
        let written = state.to_bytes();
        prop_assert_eq!(SessionState::read(&written).unwrap(), state);
    }

    #[test]
    fn frame_cut_short_anywhere_is_refused(frame in frame::<ToEdge<'_>>(), at in any::<Index>()) {
        let mut written = Vec::new();
        frame.append(&mut written);
        written.truncate(at.index(written.len()));
        prop_assert!(ToEdge::take(&mut &*written).is_err());
    }

    #[test]
    fn remaining_ttl_rounds_up_and_keeps_order(a in any::<Duration>(), b in 0..700_000_000_u64) {
        let b = Duration::from_micros(b);
        let rounded = RemainingTtl::from_duration(b).as_duration();
        prop_assert!(rounded >= b.min(MAX_HOLD) && rounded <= MAX_HOLD);
        prop_assert!(rounded < b + Duration::from_millis(10));
        prop_assert_eq!(RemainingTtl::from_duration(rounded), RemainingTtl::from_duration(b));
        prop_assert_eq!(b.is_zero(), RemainingTtl::from_duration(b) == RemainingTtl::NONE);
        prop_assert!(a > b || RemainingTtl::from_duration(a) <= RemainingTtl::from_duration(b));
    }

    #[test]
    fn resume_token_proves_its_session_until_it_expires(session in any::<[u8; 16]>(), id in "[A-Za-z0-9._~:@-]{1,128}", life in 1..u64::from(u32::MAX)) {
        let (client_id, session) = (ClientId::new(&id).unwrap(), SessionId(session));
        let (key, expiry) = (resume::Key::new([1; 32]), UNIX_EPOCH + Duration::from_secs(life));
        let token = resume::issue(&key, &client_id, session, expiry);
        prop_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        let verify = |now| resume::verify(&key, &client_id, &token, now);
        prop_assert_eq!((verify(expiry - Duration::from_secs(1)), verify(expiry)), (Some(session), None));
    }
}

/// A length as bincode writes it in eight bytes, whatever it claims.
fn forged(front: &[u8], length: u64) -> Vec<u8> {
    [front, &[253], &length.to_le_bytes(), b"short"].concat()
}

#[test]
fn forged_length_is_refused_before_allocation() {
    type IsTaken = fn(u64) -> bool;
    let cases: [(&str, u64, IsTaken); 4] = [
        ("payload of Up", 5, |length| ToNode::take(&mut &*forged(&[1, 1, 1, 1], length)).is_ok()),
        ("exceptions of Confirm", 0, |length| ToNode::take(&mut &*forged(&[2, 1, 1], length)).is_ok()),
        ("state of Released", 5, |length| ToEdge::take(&mut &*forged(&[5, 1], length)).is_ok()),
        ("via of Held", 0, |length| Item::take(&mut &*forged(&[2, 1], length)).is_ok()),
    ];
    for (field, true_length, is_taken) in cases {
        assert!(is_taken(true_length), "{field}");
        for length in [6, MAX_FRAME_BYTES as u64, MAX_FRAME_BYTES as u64 + 1, 1 << 40, u64::MAX] {
            assert!(!is_taken(length), "{field}: {length}");
        }
    }
}

#[test]
fn largest_message_fits_and_a_larger_frame_is_refused() {
    let payload = vec![b'x'; MAX_MESSAGE_BYTES];
    let largest = ToNode::Up { slot: u32::MAX, seq: Seq(u64::MAX), ttl: RemainingTtl::NONE, payload: &payload };
    let mut written = Vec::new();
    largest.append(&mut written);
    assert_eq!(ToNode::take(&mut &*written).unwrap(), largest);

    let payload = vec![b'x'; MAX_FRAME_BYTES + 1];
    let mut written = Vec::new();
    ToNode::Up { slot: 1, seq: Seq(1), ttl: RemainingTtl::NONE, payload: &payload }.append(&mut written);
    assert!(ToNode::take(&mut &*written).is_err());
}

#[test]
fn batch_above_the_maximum_size_is_refused_at_its_length() {
    let read = |length: usize| {
        let mut head = lane::frame(0, |_| {});
        head[1..].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
        FrameReader::default().read(&head, |_| Ok::<_, DecodeError>(()))
    };
    assert!(read(lane::MAX_BYTES).is_ok(), "its bytes can follow");
    assert!(read(lane::MAX_BYTES + 1).is_err());
    assert!(forward::open(&mut &[][..]).is_err());
    assert!(FrameReader::default().read(&[9], |_| Ok::<_, DecodeError>(())).is_err(), "an unknown kind");
}
