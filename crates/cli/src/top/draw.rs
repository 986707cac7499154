//! The picture on a terminal.

use fulmar_top::{Figure, Mark, NodeView, State, Table, View};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::screen::{Screen, pages};

/// The fewest columns of a figure.
const FIGURE_WIDTH: u16 = 26;
/// The lines of a figure: its name and value, its curve, and an empty one.
const FIGURE_HEIGHT: u16 = 4;
/// The most troubles that are shown above the tables; the others are marked rows.
const TROUBLES_SHOWN: usize = 5;
/// The resolution of curves.
const CURVE_MAX: f64 = 1000.0;

const HELP: &str = "q quit   space pause   . step   tab node   arrows scroll";

/// Draws a view.
pub(super) fn all(frame: &mut Frame<'_>, view: &View, screen: &mut Screen) {
    let pages = pages(view);
    screen.page = screen.page.min(pages - 1);
    let node = match (view.nodes.len(), screen.page) {
        (1, _) => view.nodes.first(),
        (_, 0) => None,
        (_, page) => view.nodes.get(page - 1),
    };
    let troubles = node.map_or_else(Vec::new, troubles);
    let figures = node.map_or(0, |node| figures_height(node, frame.area()));
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(troubles.len() as u16),
        Constraint::Length(figures),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [head, warnings, pictures, body, foot] = parts.areas(frame.area());
    frame.render_widget(header(view, node, screen), head);
    frame.render_widget(Paragraph::new(troubles), warnings);
    if let Some(node) = node {
        draw_figures(frame, node, pictures);
    }
    draw_tables(frame, (view, node), screen, body);
    let dim = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Paragraph::new(HELP).style(dim), foot);
}

fn header(view: &View, node: Option<&NodeView>, screen: &Screen) -> Paragraph<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut parts = vec![Span::styled("fulmar top  ", Style::new().fg(Color::Cyan).patch(bold))];
    match node {
        Some(node) => {
            if view.nodes.len() > 1 {
                parts.push(Span::raw(format!("{} of {}  ", screen.page, view.nodes.len())));
            }
            parts.push(Span::styled(node.name.clone(), bold));
            parts.push(Span::raw("  "));
            parts.push(match node.state {
                State::Up => Span::styled("up", Style::new().fg(Color::Green)),
                State::Waiting => Span::raw("no answer yet"),
                State::Failed => Span::styled("failed", style(Mark::Bad)),
                State::Silent => Span::styled("no answer", style(Mark::Bad)),
            });
            parts.push(Span::raw(format!("  {}", node.at)));
        }
        None => parts.push(Span::styled(format!("{} nodes", view.nodes.len()), bold)),
    }
    parts.push(Span::raw(format!("  {}", screen.note)));
    if screen.is_paused {
        parts.push(Span::styled("  PAUSED", style(Mark::Warn)));
    }
    Paragraph::new(Line::from(parts))
}

fn style(mark: Mark) -> Style {
    match mark {
        Mark::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Mark::Warn => Style::new().fg(Color::Yellow),
        Mark::Plain => Style::new(),
    }
}

/// Returns what is wrong, and an empty line below.
fn troubles(node: &NodeView) -> Vec<Line<'static>> {
    let line = |(mark, text): &(Mark, String)| Line::styled(format!("! {text}"), style(*mark));
    let mut lines: Vec<_> = node.troubles.iter().take(TROUBLES_SHOWN).map(line).collect();
    let hidden = node.troubles.len().saturating_sub(TROUBLES_SHOWN);
    if hidden > 0 {
        lines.push(Line::raw(format!("  and {hidden} more")));
    }
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines
}

/// Returns how many figures are beside each other.
fn beside(area: Rect) -> u16 {
    (area.width / FIGURE_WIDTH).max(1)
}

/// Returns the lines of the figures: less than half of the screen, so that there is space for tables.
fn figures_height(node: &NodeView, area: Rect) -> u16 {
    let rows = (node.figures.len() as u16).div_ceil(beside(area));
    let most = (area.height / 2 / FIGURE_HEIGHT).max(1);
    rows.min(most) * FIGURE_HEIGHT
}

fn draw_figures(frame: &mut Frame<'_>, node: &NodeView, area: Rect) {
    let rows = area.height / FIGURE_HEIGHT;
    let rows = Layout::vertical(vec![Constraint::Length(FIGURE_HEIGHT); rows.into()]).split(area);
    let beside = usize::from(beside(area));
    for (row, figures) in rows.iter().zip(node.figures.chunks(beside)) {
        let cells = vec![Constraint::Fill(1); beside];
        let cells = Layout::horizontal(cells).spacing(2).split(*row);
        for (cell, figure) in cells.iter().zip(figures) {
            draw_figure(frame, figure, *cell);
        }
    }
}

fn draw_figure(frame: &mut Frame<'_>, figure: &Figure, area: Rect) {
    let [title, curve, _] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(FIGURE_HEIGHT - 2),
        Constraint::Length(1),
    ])
    .areas(area);
    let space = usize::from(area.width).saturating_sub(figure.name.chars().count());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let name = Line::from(vec![
        Span::raw(figure.name),
        Span::styled(format!("{:>space$}", figure.now), bold),
    ]);
    frame.render_widget(Paragraph::new(name), title);
    let last = figure.points.len().saturating_sub(usize::from(curve.width));
    let values: Vec<f64> = figure.points[last..].iter().map(|(_, value)| *value).collect();
    // A curve is as high as the largest value of all, which is also of those that do not fit.
    let largest = figure.points.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let data: Vec<u64> =
        values.iter().map(|value| (value / largest * CURVE_MAX).round() as u64).collect();
    let line = Sparkline::default().data(data).max(CURVE_MAX as u64);
    frame.render_widget(line.style(Style::new().fg(Color::Cyan)), curve);
}

fn draw_tables(
    frame: &mut Frame<'_>,
    (view, node): (&View, Option<&NodeView>),
    screen: &mut Screen,
    area: Rect,
) {
    let lines: Vec<Line<'static>> = match node {
        Some(node) => node.tables.iter().flat_map(table).collect(),
        None => table(&view.overview),
    };
    let hidden = lines.len().saturating_sub(area.height.into());
    screen.lines = area.height;
    screen.down_max = u16::try_from(hidden).unwrap_or(u16::MAX);
    screen.down = screen.down.min(screen.down_max);
    let place = (screen.down, screen.right);
    frame.render_widget(Paragraph::new(lines).scroll(place), area);
}

/// Returns the lines of a table: its title, headings, rows, note, and an empty one.
fn table(table: &Table) -> Vec<Line<'static>> {
    let bold = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
    let dim = Style::new().add_modifier(Modifier::DIM);
    let mut lines = vec![Line::styled(table.title, bold)];
    let marks = std::iter::once(dim).chain(table.rows.iter().map(|row| style(row.mark)));
    lines.extend(
        table.lines().into_iter().zip(marks).map(|(text, style)| Line::styled(text, style)),
    );
    lines.extend(table.note.iter().map(|note| Line::styled(note.clone(), dim)));
    lines.push(Line::default());
    lines
}

#[cfg(test)]
mod tests {
    use fulmar_top::{Answer, Interface, Model, Peer, Sample, Totals};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn sample(seconds: u64) -> Sample {
        let interface = Interface {
            nid: "10.0.0.1@tcp".into(),
            device: "eth0".into(),
            is_up: true,
            health: 1000,
            credits: 256,
            credits_max: 256,
            ..Interface::default()
        };
        let peer =
            |number| Peer { nid: format!("10.0.0.{number}@tcp"), health: 1000, ..Peer::default() };
        Sample {
            at_ms: seconds * 1000,
            name: "10.0.0.1@tcp".into(),
            totals: Totals { sent_bytes: (seconds * seconds) << 20, ..Totals::default() },
            interfaces: vec![interface],
            peers: (2..40).map(peer).chain([Peer { health: 900, ..peer(50) }]).collect(),
            ..Sample::default()
        }
    }

    fn drawn(nodes: usize, (width, height): (u16, u16), screen: &mut Screen) -> Vec<String> {
        let mut model = Model::new((0..nodes).map(|number| format!("node{number}:9988")));
        for seconds in 1..20 {
            model.handle_answer(0, Answer::Sample(Box::new(sample(seconds))));
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| all(frame, &model.view(), screen)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |row| (0..width).map(|x| buffer[(x, row)].symbol()).collect::<String>();
        (0..height).map(|row| line(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_node_has_figures_troubles_and_tables() {
        let lines = drawn(1, (100, 30), &mut Screen::default());
        let text = lines.join("\n");
        assert!(lines[0].starts_with("fulmar top  10.0.0.1@tcp  up  00:00:19 UTC"), "{text}");
        assert_eq!(lines[1], "! peer 10.0.0.50@tcp has health 900");
        assert!(lines[3].contains("sent") && lines[3].contains("37 MiB/s"), "{text}");
        assert!(lines[5].contains('█'), "{text}");
        assert!(text.contains("Interfaces\n") && text.contains("\n10.0.0.1@tcp  eth0"), "{text}");
        assert!(lines[29].starts_with("q quit"), "{text}");
    }

    #[test]
    fn tables_are_scrolled_to_their_end() {
        let mut screen = Screen { down: u16::MAX, ..Screen::default() };
        let lines = drawn(1, (100, 30), &mut screen);
        assert!(lines[27].starts_with("10.0.0.9@tcp"), "{lines:#?}");
        assert_eq!((lines[28].as_str(), screen.down), ("", screen.down_max));
    }

    #[test]
    fn several_nodes_begin_with_a_table() {
        let mut screen = Screen::default();
        let text = drawn(3, (120, 20), &mut screen).join("\n");
        assert!(text.starts_with("fulmar top  3 nodes"), "{text}");
        assert!(text.contains("\n10.0.0.1@tcp  up ") && text.contains("\nnode1:9988 "), "{text}");
        screen.page = 2;
        let text = drawn(3, (120, 20), &mut screen).join("\n");
        assert!(text.starts_with("fulmar top  2 of 3  node1:9988  no answer yet"), "{text}");
    }

    #[test]
    fn every_size_of_a_terminal_is_drawn() {
        for size in [(1, 1), (3, 2), (20, 4), (26, 200), (400, 5)] {
            drawn(1, size, &mut Screen::default());
            drawn(2, size, &mut Screen { page: 1, ..Screen::default() });
        }
    }
}
