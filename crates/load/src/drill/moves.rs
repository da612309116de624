use signaling_rendezvous::{KeyHash, Ranking};

/// Which clients have another owner among the nodes `after` than among those `before`.
pub(super) fn moves(names: &[String], before: &[String], after: &[String]) -> Vec<bool> {
    let (before, after) = (Ranking::new(0, before), Ranking::new(0, after));
    let owner = |ranking: &Ranking, key| ranking.owner(key).map(|index| ranking.id(index).to_owned());
    let has_moved = |name: &String| {
        let key = KeyHash::of(name);
        owner(&before, key) != owner(&after, key)
    };
    names.iter().map(has_moved).collect()
}

/// Of each client, whether neither it nor its partner has moved: what is sent between them ought to notice nothing.
pub(super) fn undisturbed(has_moved: &[bool], partner_of: &[usize]) -> Vec<bool> {
    has_moved.iter().zip(partner_of).map(|(moved, partner)| !moved && !has_moved[*partner]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    fn moved(before: &[&str], after: &[&str]) -> usize {
        let names: Vec<String> = (0..10_000).map(|number| format!("load-{number}")).collect();
        moves(&names, &strings(before), &strings(after)).into_iter().filter(|moved| *moved).count()
    }

    #[test]
    fn a_fourth_node_takes_a_quarter_and_gives_it_back() {
        let joined = moved(&["node-0", "node-1", "node-2"], &["node-0", "node-1", "node-2", "node-3"]);
        let left = moved(&["node-0", "node-1", "node-2", "node-3"], &["node-0", "node-1", "node-2"]);

        assert!((2_300..2_700).contains(&joined), "{joined}");
        assert_eq!(joined, left);
    }

    #[test]
    fn the_same_nodes_in_another_order_move_nobody() {
        assert_eq!(moved(&["node-0", "node-1"], &["node-1", "node-0"]), 0);
    }

    #[test]
    fn a_pair_is_disturbed_by_either_end() {
        assert_eq!(undisturbed(&[true, false, false, false], &[1, 0, 3, 2]), [false, false, true, true]);
    }
}
