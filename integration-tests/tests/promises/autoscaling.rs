//! The autoscaler of the simulated day (`cargo run -p signaling-balancer --example day`) is told what the manifests tell the real
//! one, and reckons as that does.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use signaling_integration_tests::rendered::{Rendered, list};

#[allow(dead_code, reason = "shared with the example")]
#[path = "../../../crates/balancer/examples/day/autoscaler.rs"]
mod autoscaler;

use autoscaler::{Autoscaler, Pace, Policy};

#[test]
fn the_simulated_autoscaler_has_the_settings_of_the_manifests() {
    for rendered in Rendered::meshes().iter().filter(|rendered| rendered.folder == "overlays/production") {
        let spec = &rendered.object("HorizontalPodAutoscaler", "signaling-nodes")["spec"];
        let target = json!({ "type": "AverageValue", "averageValue": "600m" });
        assert_eq!(spec["metrics"], json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]));
        let number = |value: &Value| value.as_u64().unwrap();
        let pace = |rules: &Value| {
            assert_eq!(rules["selectPolicy"], "Max");
            let of = |kind: &str| {
                let policy = list(&rules["policies"]).iter().find(|policy| policy["type"] == kind).unwrap();
                (number(&policy["value"]) as u32, number(&policy["periodSeconds"]))
            };
            Pace { window: number(&rules["stabilizationWindowSeconds"]), percent: of("Percent"), pods: of("Pods") }
        };
        let (up, down) = (pace(&spec["behavior"]["scaleUp"]), pace(&spec["behavior"]["scaleDown"]));
        let (min, max) = (number(&spec["minReplicas"]) as u32, number(&spec["maxReplicas"]) as u32);
        assert_eq!(Policy::of_nodes(), Policy { min, max, target: 0.6, up, down });
    }
}

#[test]
fn within_a_tenth_of_the_target_nothing_changes() {
    let mut autoscaler = Autoscaler::new(Policy::of_nodes());
    assert_eq!(autoscaler.decide(0, 4, &[0.65; 4]), 4);
    assert_eq!(autoscaler.decide(15, 4, &[0.55; 4]), 4);
    assert_eq!(autoscaler.decide(30, 4, &[0.69; 4]), 5);
}

#[test]
fn it_goes_up_at_once_by_double_or_four_whichever_is_more() {
    let mut autoscaler = Autoscaler::new(Policy::of_nodes());
    assert_eq!(autoscaler.decide(0, 3, &[6.0; 3]), 7);
    assert_eq!(autoscaler.decide(5, 7, &[6.0; 7]), 7, "not twice within a period");
    assert_eq!(autoscaler.decide(15, 7, &[6.0; 7]), 14);
    assert_eq!(autoscaler.decide(30, 14, &[6.0; 14]), 28);
    assert_eq!(autoscaler.decide(45, 28, &[6.0; 28]), 56);
    assert_eq!(autoscaler.decide(60, 56, &[6.0; 56]), 60);
}

#[test]
fn new_pods_of_which_nothing_is_known_do_not_exaggerate() {
    let mut autoscaler = Autoscaler::new(Policy::of_nodes());
    assert_eq!(autoscaler.decide(0, 6, &[0.9; 3]), 6, "three more have been made for what three still do");
    assert_eq!(autoscaler.decide(15, 6, &[1.5; 3]), 8);
}

#[test]
fn it_goes_down_only_after_the_window_and_then_slowly() {
    let mut autoscaler = Autoscaler::new(Policy::of_nodes());
    assert_eq!(autoscaler.decide(0, 20, &[0.6; 20]), 20);
    let mut pods = 20;
    let mut seen = Vec::new();
    for second in (15..=480).step_by(15) {
        let now = autoscaler.decide(second, pods, &vec![0.1; pods as usize]);
        if now != pods {
            seen.push((second, now));
        }
        pods = now;
    }
    assert_eq!(seen, [(315, 18), (375, 16), (435, 14)]);
}

#[test]
fn it_stays_between_its_bounds() {
    let mut autoscaler = Autoscaler::new(Policy::of_nodes());
    for second in (0..900).step_by(15) {
        assert_eq!(autoscaler.decide(second, 3, &[0.01; 3]), 3);
    }
}
