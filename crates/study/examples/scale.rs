//! For a look.
use fulmar_study::scale::*;
fn main() {
    let a: Vec<u32> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let t = std::time::Instant::now();
    let s = run(Size { nodes: a[0], routers: a[1], servers: a[2], ..Size::default() }, |w| {
        println!("{:.1} {w}", t.elapsed().as_secs_f64())
    })
    .unwrap();
    println!("{s:#?} {:.0} steps/s", s.steps_per_second());
}
