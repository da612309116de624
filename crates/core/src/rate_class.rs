//! Classes of clients that may send at different rates. Edges read them from tokens and flags.

use std::str::FromStr;

use signaling_protocol::NameError;
use signaling_protocol::ids::check_name;

signaling_protocol::checked_texts! {
    /// The name of a rate class, from the claim `rate_class` of a token. A class without rates in
    /// the flags has the usual ones. Names follow the rules for room names.
    RateClass, check_name, NameError;
}

/// Rates of one client in the long run: `MESSAGES` or `MESSAGES/BYTES`, each a number below 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Messages per second. 0: no limit.
    pub messages: u32,
    /// Bytes of messages per second, with 64 more for each message. 0: no limit; `None`: the usual
    /// rate.
    pub bytes: Option<u32>,
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text:?} is no number below 2^32"))
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (messages, bytes) = match text.split_once('/') {
            Some((messages, bytes)) => (messages, Some(number(bytes)?)),
            None => (text, None),
        };
        Ok(Self { messages: number(messages)?, bytes })
    }
}

/// Rates of the clients in one class: `NAME=MESSAGES[/BYTES[/ROOMS]]`, with a valid name and
/// [`Rates`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassRates {
    /// Class in the clients' tokens.
    pub class: RateClass,
    /// Rates of each client.
    pub rates: Rates,
    /// New rooms per second of each client. 0: no limit; `None`: the usual rate.
    pub new_rooms: Option<u32>,
}

impl FromStr for ClassRates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rates) = text.split_once('=').ok_or("it must be NAME=MESSAGES[/BYTES[/ROOMS]]")?;
        let class = RateClass::new(name).map_err(|error| format!("{name:?}: {error}"))?;
        let (rates, new_rooms) = match rates.rsplit_once('/').filter(|(rates, _)| rates.contains('/')) {
            Some((rates, rooms)) => (rates, Some(number(rooms)?)),
            None => (rates, None),
        };
        Ok(Self { class, rates: rates.parse()?, new_rooms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_a_class_are_read_and_what_is_wrong_is_named() {
        let bots = RateClass::new("bots").unwrap();
        let read = |text: &str| text.parse::<ClassRates>();
        let rates = Rates { messages: 20, bytes: None };
        assert_eq!(read("bots=20"), Ok(ClassRates { class: bots.clone(), rates, new_rooms: None }));
        let rates = Rates { messages: 0, bytes: Some(65_536) };
        assert_eq!(read("bots=0/65536"), Ok(ClassRates { class: bots.clone(), rates, new_rooms: None }));
        assert_eq!(read("bots=0/65536/50"), Ok(ClassRates { class: bots, rates, new_rooms: Some(50) }));
        for (text, part) in [
            ("bots", "NAME=MESSAGES"),
            ("=1", "\"\""),
            ("b c=1", "b c"),
            ("bots=many", "many"),
            ("bots=-1", "-1"),
            ("bots=1/", "\"\""),
            ("bots=1/2/", "\"\""),
            ("bots=1/2/3/4", "2/3"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
