//! Native messages of a translator: [requests](Request) to the mesh, and parsed messages from it.

mod from_mesh;
mod to_mesh;

pub(crate) use from_mesh::FromMesh;
pub use to_mesh::{Request, RoomEvents, RoomOptions};
