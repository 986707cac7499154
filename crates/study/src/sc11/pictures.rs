//! The figures of the study, and their values.

use super::grid::{
    BACK_TO_BACK_CREDITS, CONCURRENCIES, Distance, Hold, Key, NODES, PEER_CREDITS, SIZES,
    USUAL_CONCURRENCY, what_fills,
};
use super::{Point, Study, line_rate};
use crate::chart::{Axis, Chart, HeatMap, Panel, Picture, Scale, Series, Style, Unit};
use crate::scenario::Direction;

/// A figure and the points that it shows.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its files, without extension.
    pub name: &'static str,
    /// The picture.
    pub picture: Picture,
    /// The points as CSV, with a header line.
    pub csv: String,
}

const DIRECTIONS: [Direction; 2] = [Direction::Write, Direction::Read];
const GIGA: f64 = 1e9;

/// A curve without values yet.
struct Curve {
    name: String,
    style: Style,
    keys: Vec<(f64, Key)>,
}

/// Returns all figures.
pub(super) fn all(study: &Study) -> Vec<Figure> {
    vec![
        over_concurrency(study),
        over_message_size(study),
        over_nodes(study),
        over_distance(study),
        heat(study),
    ]
}

fn over_concurrency(study: &Study) -> Figure {
    let axis = Axis::new("RPCs in flight per client", Scale::Log2);
    let keys = |usual: Key| {
        let keys = CONCURRENCIES.map(|n| (f64::from(n), Key { concurrency: n, ..usual }));
        keys.to_vec()
    };
    let title = "Throughput over concurrency";
    family(study, "concurrency", title, "31 clients, 1 MiB, 50.5 ms", axis, keys)
}

fn over_message_size(study: &Study) -> Figure {
    let axis = Axis::new("bytes of a transfer", Scale::Log2).in_unit(Unit::Bytes);
    let keys = |usual: Key| SIZES.map(|n| (f64::from(n), Key { size: n, ..usual })).to_vec();
    let subtitle = format!("31 clients, {USUAL_CONCURRENCY} RPCs in flight per client, 50.5 ms");
    family(study, "message-size", "Throughput over message size", &subtitle, axis, keys)
}

fn over_nodes(study: &Study) -> Figure {
    let axis = Axis::new("clients (and as many servers, up to 16)", Scale::Log2);
    let keys = |usual: Key| NODES.map(|n| (f64::from(n), Key { clients: n, ..usual })).to_vec();
    let subtitle = format!("1 MiB, {USUAL_CONCURRENCY} RPCs in flight per client, 50.5 ms");
    family(study, "nodes", "Throughput over the number of nodes", &subtitle, axis, keys)
}

/// Draws two curves for each `peer_credits`: with and without held credits.
fn family(
    study: &Study,
    name: &'static str,
    title: &str,
    subtitle: &str,
    axis: Axis,
    keys: impl Fn(Key) -> Vec<(f64, Key)>,
) -> Figure {
    let curves = |direction| {
        let mut curves = Vec::new();
        for (colour, peer_credits) in PEER_CREDITS.into_iter().enumerate() {
            for hold in Hold::ALL.into_iter().rev() {
                curves.push(Curve {
                    name: format!("{}, peer_credits {peer_credits}", hold.name()),
                    style: Style { colour, dashed: hold == Hold::Kernel, bare: false },
                    keys: keys(Key::usual(direction, hold, peer_credits)),
                });
            }
        }
        curves
    };
    figure(study, name, [title, subtitle], &axis, curves)
}

fn over_distance(study: &Study) -> Figure {
    let curves = |direction| {
        let mut curves = Vec::new();
        for distance in [Distance::Ocean, Distance::BackToBack] {
            for (n, peer_credits) in BACK_TO_BACK_CREDITS.into_iter().enumerate() {
                for hold in Hold::ALL.into_iter().rev() {
                    let usual = Key { distance, ..Key::usual(direction, hold, peer_credits) };
                    let keys =
                        CONCURRENCIES.map(|n| (f64::from(n), Key { concurrency: n, ..usual }));
                    let is_ocean = distance == Distance::Ocean;
                    curves.push(Curve {
                        name: format!(
                            "{}, {}, peer_credits {peer_credits}",
                            distance.name(),
                            hold.name()
                        ),
                        style: Style {
                            colour: n + if is_ocean { 0 } else { 2 },
                            dashed: hold == Hold::Kernel,
                            bare: false,
                        },
                        keys: keys.to_vec(),
                    });
                }
            }
        }
        curves
    };
    let axis = Axis::new("RPCs in flight per client", Scale::Log2);
    figure(
        study,
        "distance",
        ["Back to back and over the ocean", "31 clients, 1 MiB"],
        &axis,
        curves,
    )
}

/// Draws a panel for each direction.
fn figure(
    study: &Study,
    name: &'static str,
    [title, subtitle]: [&str; 2],
    axis: &Axis,
    curves: impl Fn(Direction) -> Vec<Curve>,
) -> Figure {
    let mut keys = Vec::new();
    let mut panel = |direction: Direction| {
        let mut series = Vec::new();
        let curves = curves(direction);
        let ends = curves.first().map_or(&[][..], |curve| &curve.keys);
        let full = [ends.first(), ends.last()].into_iter().flatten();
        let full = Series {
            name: "capacity of the trunks".into(),
            style: Style { colour: 6, dashed: false, bare: true },
            points: full.map(|(x, _)| (*x, line_rate() / GIGA)).collect(),
        };
        for Curve { name, style, keys: own } in curves {
            let value = |(x, key): &(f64, Key)| {
                Some((*x, study.get(key)?.simulated.bytes_per_second / GIGA))
            };
            series.push(Series { name, style, points: own.iter().filter_map(value).collect() });
            keys.extend(own.into_iter().map(|(_, key)| key));
        }
        series.push(full);
        Panel::from(Chart {
            title: format!("{title}: {}", direction.name()),
            subtitle: subtitle.into(),
            x: axis.clone(),
            y: Axis::new("payload of all clients, GB/s", Scale::Linear).between(0.0, 14.0),
            series,
            notes: vec![],
        })
    };
    let panels = DIRECTIONS.map(&mut panel).to_vec();
    let mut picture = Picture::grid("", 2, panels);
    picture.panel_size = (680, 520);
    Figure { name, picture, csv: csv(study, &keys) }
}

fn heat(study: &Study) -> Figure {
    let by_credits = |hold| {
        let usual = |peer_credits| Key::usual(Direction::Write, hold, peer_credits);
        let row = |peer_credits| {
            CONCURRENCIES.map(|concurrency| Key { concurrency, ..usual(peer_credits) })
        };
        PEER_CREDITS.map(|peer_credits| row(peer_credits).to_vec()).to_vec()
    };
    let nodes = "31 clients";
    let maps = [
        (Hold::Kernel, nodes.to_owned(), "peer_credits", by_credits(Hold::Kernel)),
        (Hold::Fulmar, nodes.to_owned(), "peer_credits", by_credits(Hold::Fulmar)),
        (
            Hold::Kernel,
            format!("peer_credits {}", BACK_TO_BACK_CREDITS[1]),
            "clients",
            what_fills(Hold::Kernel, BACK_TO_BACK_CREDITS[1]),
        ),
        (
            Hold::Fulmar,
            format!("peer_credits {}", BACK_TO_BACK_CREDITS[0]),
            "clients",
            what_fills(Hold::Fulmar, BACK_TO_BACK_CREDITS[0]),
        ),
    ];
    let mut keys = Vec::new();
    let panel = |(hold, with, y_label, rows): (Hold, String, &str, Vec<Vec<Key>>)| {
        keys.extend(rows.iter().flatten().copied());
        let part = |key: &Key| Some(study.get(key)?.simulated.bytes_per_second / line_rate());
        let named = |row: &Vec<Key>| match y_label {
            "clients" => row[0].clients.to_string(),
            _ => row[0].peer_credits.to_string(),
        };
        Panel::from(HeatMap {
            title: format!("What fills the pipe: {} credits", hold.name()),
            subtitle: format!("write, 1 MiB, 50.5 ms, {with}"),
            x_label: "RPCs in flight per client".into(),
            columns: CONCURRENCIES.map(|n| n.to_string()).to_vec(),
            y_label: y_label.into(),
            rows: rows.iter().map(named).collect(),
            value_label: "share of the trunks' capacity".into(),
            unit: Unit::Percent,
            range: (0.0, 1.0),
            cells: rows.iter().map(|row| row.iter().map(part).collect()).collect(),
            notes: vec![],
        })
    };
    let panels = maps.into_iter().map(panel).collect();
    Figure {
        name: "what-fills-the-pipe",
        picture: Picture::grid("", 2, panels),
        csv: csv(study, &keys),
    }
}

/// Returns these points as CSV.
pub(super) fn csv(study: &Study, keys: &[Key]) -> String {
    let columns = [
        "direction",
        "credits_held",
        "round_trip_ms",
        "peer_credits",
        "concurrency",
        "bytes",
        "clients",
        "servers",
        "bytes_per_second",
        "closed_bytes_per_second",
        "error",
        "binds",
        "closed_binds",
        "mean_latency_ms",
    ];
    fulmar_text::csv(&columns, keys.iter().filter_map(|key| study.get(key)).map(fields))
}

fn fields(point: &Point) -> [String; 14] {
    let Key { direction, hold, distance, peer_credits, concurrency, size, clients } = point.key;
    [
        direction.name().to_owned(),
        hold.name().to_owned(),
        format!("{:.2}", distance.round_trip().as_secs_f64() * 1e3),
        peer_credits.to_string(),
        concurrency.to_string(),
        size.to_string(),
        clients.to_string(),
        point.key.servers().to_string(),
        format!("{:.0}", point.simulated.bytes_per_second),
        format!("{:.0}", point.closed.bytes_per_second),
        format!("{:.4}", point.error),
        point.simulated.binding.name().to_owned(),
        point.closed.bound.name().to_owned(),
        format!("{:.3}", point.simulated.mean_latency.as_secs_f64() * 1e3),
    ]
}
