//! Reading a server's metrics page.

/// The sum of all samples of a metric whose labels contain `label` (empty: all), on the internal listener at `internal`.
pub async fn metric(internal: &str, name: &str, label: &str) -> f64 {
    let page = reqwest::get(format!("{internal}/metrics")).await.unwrap().text().await.unwrap();
    let samples = page.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '{'])) && line.contains(label)
    });
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
