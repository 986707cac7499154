//! Checks the contents of picture files.

use std::io::Cursor;

use fulmar_study::chart::{
    Axis, Bar, Bars, Chart, HeatMap, Panel, Picture, Scale, Series, Style, Unit,
};

fn chart() -> Chart {
    let curve = |credits: u32, dashed: bool| {
        let most = f64::from(credits) * if dashed { 20.0 } else { 90.0 };
        let point = |n: i32| (2_f64.powi(n), (2_f64.powi(n) * 40.0).min(most));
        Series {
            name: format!("peer_credits {credits}{}", if dashed { ", held" } else { "" }),
            style: Style { colour: credits.ilog2() as usize - 3, dashed, bare: false },
            points: (0..9).map(point).collect(),
        }
    };
    Chart {
        title: "Throughput over concurrency".into(),
        subtitle: "1 MiB messages < 50.5 ms & more".into(),
        x: Axis::new("RPCs in flight of a pair", Scale::Log2),
        y: Axis::new("MB/s", Scale::Linear),
        series: [8, 16, 32, 64]
            .into_iter()
            .flat_map(|c| [curve(c, false), curve(c, true)])
            .collect(),
        notes: vec![
            "Dashed: credits are held for a round trip, as by a kernel's zero copy.".into(),
        ],
    }
}

fn heat() -> HeatMap {
    let names = |range: std::ops::Range<u32>| range.map(|n| (1 << n).to_string()).collect();
    let cell = |row: i32, column: i32| Some((2_f64.powi(row + column) / 512.0).min(1.0));
    HeatMap {
        title: "What fills the pipe".into(),
        subtitle: "write, 1 MiB".into(),
        x_label: "concurrency".into(),
        columns: names(0..9),
        y_label: "peer_credits".into(),
        rows: names(3..8),
        value_label: "part of the trunks' rate".into(),
        unit: Unit::Percent,
        range: (0.0, 1.0),
        cells: (0..5).map(|row| (0..9).map(|column| cell(row, column)).collect()).collect(),
        notes: vec![],
    }
}

fn bars() -> Bars {
    let group = |name: &str, a, b| Bar { name: name.into(), values: vec![Some(a), b] };
    Bars {
        title: "Measured and predicted".into(),
        subtitle: String::new(),
        label: "MB/s".into(),
        unit: Unit::Plain,
        names: vec!["measured".into(), "predicted".into()],
        groups: vec![group("kernel's defaults", 83.0, Some(85.0)), group("tuned", 480.0, None)],
        baseline: Some(("iperf3".into(), 490.0)),
        notes: vec![],
    }
}

fn all() -> Picture {
    let panels: Vec<Panel> = vec![chart().into(), heat().into(), bars().into()];
    Picture::grid("All kinds of panels", 2, panels)
}

#[test]
fn an_svg_contains_every_curve_and_escapes_its_texts() {
    let svg = all().svg();
    for series in chart().series {
        assert!(svg.contains(&series.name), "{}", series.name);
    }
    assert!(svg.contains("1 MiB messages &lt; 50.5 ms &amp; more"));
    assert!(svg.contains("iperf3") && svg.contains("kernel's defaults"));
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert!(svg.ends_with("</svg>\n"));
    assert_eq!(svg, all().svg(), "a picture is the same every time");
}

#[test]
fn a_png_has_the_right_size_and_is_not_blank() {
    let picture = all();
    let bytes = picture.png();
    let decoder = png::Decoder::new(Cursor::new(&bytes));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (2 * picture.size().0, 2 * picture.size().1));
    let inked = pixels.chunks(3).filter(|pixel| *pixel != [255, 255, 255]).count();
    assert!(inked > 20_000, "{inked}");
}

#[test]
fn empty_and_invalid_figures_can_be_drawn() {
    let empty = Picture::grid("", 3, vec![Chart::default().into(), HeatMap::default().into()]);
    assert!(empty.svg().contains("<svg"));
    let points = vec![(0.0, f64::NAN), (-1.0, 1.0), (f64::INFINITY, 2.0), (4.0, 0.0)];
    let series = vec![Series { points, ..Series::default() }];
    let x = Axis::new("x", Scale::Log10);
    let odd = Chart { x, series, ..Chart::default() };
    assert!(!Picture::of(odd).png().is_empty());
    assert!(!Picture::of(Bars::default()).png().is_empty());
}
