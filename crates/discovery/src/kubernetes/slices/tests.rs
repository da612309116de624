use k8s_openapi::List;

use super::*;

#[test]
fn rollout_has_serving_draining_and_unready_pods() {
    assert_eq!(
        shown(include_str!("../../../fixtures/rolling.json")),
        [
            "signaling-nodes-7c9d5b6f4-4kq2z 10.244.1.17:7900 Serving",
            "signaling-nodes-7c9d5b6f4-9wd7c 10.244.2.9:7900 Draining",
            "signaling-nodes-7c9d5b6f4-b5tnx 10.244.1.18:7900 Ending",
            "signaling-nodes-7c9d5b6f4-m8xrl 10.244.3.4:7900 Unready",
            "signaling-nodes-7c9d5b6f4-q7vhd 10.244.3.5:7900 Serving",
        ]
    );
}

#[test]
fn pod_in_slices_of_both_families_counts_once_with_ipv4() {
    assert_eq!(
        shown(include_str!("../../../fixtures/dual-stack.json")),
        [
            "signaling-nodes-7c9d5b6f4-4kq2z 10.244.1.17:7900 Serving",
            // Its IPv6 slice does not have the terminating condition yet.
            "signaling-nodes-7c9d5b6f4-9wd7c 10.244.2.9:7900 Draining",
            "signaling-nodes-7c9d5b6f4-q7vhd [fd00:10:244:3::5]:7900 Serving",
        ]
    );
}

#[test]
fn zone_of_a_pod_is_that_of_any_of_its_endpoints() {
    let zones = |slices: &[EndpointSlice]| -> Vec<_> {
        let servers = all(slices, "internal").observations().into_iter();
        servers.map(|server| server.zone.map(String::from).unwrap_or_default()).collect()
    };
    let mut rolling = slices(include_str!("../../../fixtures/rolling.json"));
    assert_eq!(zones(&rolling), ["zone-a", "zone-a", "zone-a", "zone-b", "zone-b"]);
    rolling[0].endpoints.as_mut().unwrap()[0].zone = None;
    assert_eq!(zones(&rolling), ["", "zone-a", "zone-a", "zone-b", "zone-b"]);

    let mut of_both_families = slices(include_str!("../../../fixtures/dual-stack.json"));
    for slice in 0..2 {
        of_both_families[slice].endpoints.iter_mut().flatten().for_each(|endpoint| endpoint.zone = None);
        let known = zones(&of_both_families).iter().filter(|zone| !zone.is_empty()).count();
        assert_eq!(known, [3, 0][slice], "the other slice names it");
    }
}

#[test]
fn pod_in_two_slices_counts_once_and_serves_if_one_is_ready() {
    let text = include_str!("../../../fixtures/moving.json");
    let expected = [
        "signaling-nodes-7c9d5b6f4-4kq2z 10.244.1.17:7900 Serving",
        "signaling-nodes-7c9d5b6f4-9wd7c 10.244.2.9:7900 Serving",
        "signaling-nodes-7c9d5b6f4-q7vhd 10.244.3.5:7900 Serving",
    ];
    assert_eq!(shown(text), expected);
    let mut slices = slices(text);
    slices.reverse();
    assert_eq!(shown_by(&slices, "internal"), expected, "whichever slice comes first");
}

#[test]
fn missing_conditions_mean_serving_and_not_terminating() {
    assert_eq!(
        shown(include_str!("../../../fixtures/conditions-left-out.json")),
        [
            "node-a 10.244.1.17:7900 Serving",
            "node-b 10.244.1.18:7900 Serving",
            "node-c 10.244.1.19:7900 Unready",
            // A terminating pod under `publishNotReadyAddresses`.
            "node-d 10.244.1.20:7900 Draining",
        ]
    );
}

#[test]
fn best_state_of_pods_with_one_name_counts() {
    assert_eq!(
        shown(include_str!("../../../fixtures/same-name.json")),
        ["signaling-node-0 10.244.1.44:7900 Serving", "signaling-node-1 10.244.2.8:7900 Draining"]
    );
}

#[test]
fn endpoints_without_a_node_are_ignored_and_counted() {
    let slices = slices(include_str!("../../../fixtures/oddities.json"));
    assert_eq!(shown_by(&slices, "internal"), ["node-a 10.244.1.17:7900 Serving"]);
    let ignored: Vec<_> = slices.iter().map(|slice| parse(slice, "internal").ignored).collect();
    assert_eq!((ignored, all(&slices, "internal").ignored_count()), (vec![3, 1, 1, 0], 5));
}

#[test]
fn port_is_found_by_its_name_in_each_slice() {
    let slices = slices(include_str!("../../../fixtures/rolling.json"));
    let public = shown_by(&slices, "public");
    assert!(public.iter().all(|line| line.contains(":8080 ")), "{public:?}");
    assert_eq!(public.len(), 5);
    assert_eq!(shown_by(&slices, "absent"), [""; 0]);
}

#[test]
fn list_replaces_all_and_events_change_one() {
    let mut slices = slices(include_str!("../../../fixtures/moving.json"));
    let mut all = all(&slices, "internal");
    assert_eq!(suffixes(&all), ["4kq2z", "9wd7c", "q7vhd"]);
    all.remove(&slices[0]);
    assert_eq!(suffixes(&all), ["9wd7c", "q7vhd"]);
    all.put(&slices[0]);
    assert_eq!(suffixes(&all), ["4kq2z", "9wd7c", "q7vhd"]);
    slices[1].endpoints = None;
    all.put(&slices[1]);
    assert_eq!(suffixes(&all), ["4kq2z", "9wd7c"], "a changed slice replaces itself");
    all.replace(&slices[1..]);
    assert_eq!(suffixes(&all), [""; 0]);
}

fn suffixes(slices: &Slices) -> Vec<String> {
    let servers = slices.observations().into_iter();
    servers.map(|server| server.id.as_str().rsplit('-').next().unwrap().to_owned()).collect()
}

fn slices(text: &str) -> Vec<EndpointSlice> {
    serde_json::from_str::<List<EndpointSlice>>(text).unwrap().items
}

fn shown(text: &str) -> Vec<String> {
    shown_by(&slices(text), "internal")
}

fn shown_by(slices: &[EndpointSlice], port: &str) -> Vec<String> {
    let servers = all(slices, port).observations().into_iter();
    servers.map(|server| format!("{} {} {:?}", server.id, server.address, server.status)).collect()
}

fn all(slices: &[EndpointSlice], port: &str) -> Slices {
    let mut all = Slices::new(port.into());
    all.replace(slices);
    all
}
